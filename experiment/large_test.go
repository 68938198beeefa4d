package experiment_test

import (
	"context"
	"os"
	"runtime/debug"
	"testing"

	"fedrspo/experiment"
	"fedrspo/nn"
	"fedrspo/run"
	"fedrspo/task/knapsack"
	"fedrspo/train"
)

// TestLargeFederation trains federations of up to 10,000 knapsack clients with
// the paper's protocol and number of samples per client (100, 10 and 100): the
// processor time of a round is linear in the clients, and under a memory limit
// (GOMEMLIMIT of a command) the peak of memory stays below 2.5 GB, data and
// personal models included. It runs when FEDRSPO_LARGE is set, as make large
// does; it takes some minutes and 2.5 GB.
func TestLargeFederation(t *testing.T) {
	if os.Getenv("FEDRSPO_LARGE") == "" {
		t.Skip("FEDRSPO_LARGE is not set")
	}
	if cpu, _ := run.Usage(); cpu == 0 {
		t.Skip("this system does not tell the processor time of a process")
	}
	// What is in use is about 2 GB; without a limit the collector lets as much
	// garbage pile up as it has seen grow, to 2.8 GB.
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(2200 << 20))
	nanoseconds := func() int64 { cpu, _ := run.Usage(); return int64(1e9 * cpu) }
	first := 0.0
	for _, n := range []int{1250, 2500, 5000, 10_000} {
		data, err := knapsack.Generate(knapsack.Config{Seed: 1, EtaObj: 0.5, EtaConstr: 0.5, EtaData: 0.5, Clients: n, Train: 100 * n, Val: 10 * n, Test: 100 * n})
		if err != nil {
			t.Fatal(err)
		}
		tk, err := data.Task()
		if err != nil {
			t.Fatal(err)
		}
		s := experiment.DefaultSetting(experiment.Kinds[0], train.Federated)
		cfg := s.Config
		cfg.Seed, cfg.Loss, cfg.Model, cfg.Clock = 1, s.Losses[0], nn.NewMLP(tk.In, 64, tk.Out), nanoseconds
		cfg.Fed.Rounds, cfg.Personal.Rounds = 4, 1
		r, err := train.New(cfg, tk, nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := r.Execute(context.Background()); err != nil {
			t.Fatal(err)
		}
		// The first rounds also solve each client's samples for the true costs.
		rounds := r.Spent()[0].Rounds
		last := float64(rounds[len(rounds)-1]) / 1e9
		_, peak := run.Usage()
		t.Logf("%5d clients: %.2f s of processor time in the last round, %.1f µs a client; the peak so far is %.2f GB; regret %.4f, then %.4f",
			n, last, 1e6*last/float64(n), float64(peak)/1e9, r.Result().Fed.Relative, r.Result().Personal.Relative)
		if first == 0 {
			first = last / float64(n)
		}
		// Linear, but for caches that a large federation does not fit, and for
		// what else the machine does.
		if per := last / float64(n); per > 2*first {
			t.Errorf("%d clients: %.1f µs a client and round, %.1f with 1250", n, 1e6*per, 1e6*first)
		}
		if n == 10_000 && peak > 2.5e9 {
			t.Errorf("10,000 clients need %.2f GB", float64(peak)/1e9)
		}
	}
}
