package train

import (
	"testing"

	"fedrspo/nn"
	"fedrspo/run"
	"fedrspo/surrogate"
	"fedrspo/task"
)

// TestTrackNeverChangesAModel: with and without tracking, by any number of
// workers, the state is the same, bit for bit, but for the tracked regrets,
// which do not depend on the number of workers either.
func TestTrackNeverChangesAModel(t *testing.T) {
	tk := fiveClients()
	for _, m := range methods {
		for _, l := range []surrogate.Loss{surrogate.RSPOPlus{}, surrogate.DPO{}, surrogate.OptNet{}} {
			cfg := m.short(tk, l)
			cfg.Precision = nn.Float32
			plain := marshal(t, execute(t, cfg, tk).State())
			tracked := ""
			for _, workers := range []int{1, 3} {
				cfg.Track, cfg.Workers = 3, workers
				s := execute(t, cfg, tk).State()
				got := marshal(t, s)
				if tracked == "" {
					tracked = got
				} else if got != tracked {
					t.Errorf("%s, %s: other tracked regrets with %d workers", m.name, l.Name(), workers)
				}
				n := 0
				for _, metrics := range append([][]run.Metric{s.FedMetrics}, clientMetrics(s)...) {
					for k := range metrics {
						if metrics[k].Validation == nil {
							t.Errorf("%s, %s: no regret after %+v", m.name, l.Name(), metrics[k])
						}
						metrics[k].Validation = nil
						n++
					}
				}
				if n == 0 || marshal(t, s) != plain {
					t.Errorf("%s, %s: tracking %d rounds changed the state", m.name, l.Name(), n)
				}
			}
		}
	}
}

func clientMetrics(s *State) (out [][]run.Metric) {
	for _, c := range s.Clients {
		out = append(out, c.Metrics)
	}
	return out
}

// TestTrackMeasuresTheModel: after the last round of a stage, the tracked
// regrets are those of the stage's models on the samples floor(k n/K), judged
// as test samples are.
func TestTrackMeasuresTheModel(t *testing.T) {
	tk := fiveClients()
	tk.Clients[1].Val = task.Split{} // a client without
	const track = 3
	// judged has the tracked samples in place of test samples.
	judged := &task.Task{Name: tk.Name, In: tk.In, Out: tk.Out}
	for _, c := range tk.Clients {
		n := c.Val.Len()
		if n == 0 {
			continue
		}
		x, costs := task.Matrix{Cols: tk.In}, task.Matrix{Cols: tk.Out}
		for k := range min(track, n) {
			i := k * n / min(track, n)
			x.Data = append(x.Data, c.Val.X.(task.Matrix).Row(i)...)
			costs.Data = append(costs.Data, c.Val.C.Row(i)...)
		}
		other := *c
		other.Test = task.Split{X: x, C: costs}
		judged.Clients = append(judged.Clients, &other)
	}
	eachSetting(t, func(t *testing.T, l surrogate.Loss, regime Regime) {
		for _, single := range []bool{false, true} {
			if single && regime != Centralized {
				continue
			}
			cfg := testConfig(tk, l, regime)
			cfg.Track, cfg.SinglePooled = track, single
			r := execute(t, cfg, tk)
			for _, stage := range []string{StageFed, StagePersonal} {
				models, ok := r.Models(stage)
				if !ok {
					continue
				}
				want, err := Evaluate(ctx, cfg, judged, models, nil)
				if err != nil {
					t.Fatal(err)
				}
				if stage == StageFed && (regime == Federated || single) {
					last := r.State().FedMetrics[len(r.State().FedMetrics)-1]
					if last.Validation == nil || *last.Validation != want.Regret {
						t.Errorf("%s: %v after the last round, want %v", stage, last.Validation, want.Regret)
					}
					continue
				}
				k := 0
				for i, c := range r.State().Clients {
					last := c.Metrics[len(c.Metrics)-1]
					if tk.Clients[i].Val.Len() == 0 {
						if last.Validation != nil {
							t.Errorf("client %d without validation samples has %v", tk.Clients[i].ID, last.Validation)
						}
						continue
					}
					if last.Validation == nil || *last.Validation != want.Clients[k].Regret {
						t.Errorf("%s, client %d: %v after the last round, want %v", stage, tk.Clients[i].ID, last.Validation, want.Clients[k].Regret)
					}
					k++
				}
			}
		}
	})
}
