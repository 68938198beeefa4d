package train

import (
	"testing"

	"fedrspo/surrogate"
)

// TestLateClient: the federated model of a task with a late client is that of
// the task without it, settings chosen on validation data included, whatever its
// data are; the client then personalises that model with its own data (paper,
// tables 11 and 12).
func TestLateClient(t *testing.T) {
	for _, l := range []surrogate.Loss{surrogate.MSE{}, surrogate.RSPOPlus{}, surrogate.OptNet{}} {
		for _, averaged := range []bool{false, true} {
			late, without := fiveClients(), fiveClients()
			late.Clients[2].Late = true
			without.Clients = append(without.Clients[:2], without.Clients[3:]...)
			cfg := testConfig(late, l, Federated)
			cfg.Multipliers = []float64{0.05, 0.5}
			cfg.Fed.Fraction, cfg.Fed.MonitorFraction = 0.5, 0.5
			cfg.Calibration.Averaged = averaged
			cfg.Rates = RateMatched
			cfg.Fed.KappaLambda, cfg.Fed.Tau = 1, 0.05 // so that the monitor has a say
			a, b := execute(t, cfg, late), execute(t, cfg, without)
			sameVector(t, l.Name()+": federated model", a.state.Server.Model, b.state.Server.Model, 0)
			for i, j := range []int{0, 1, 3, 4} {
				sameVector(t, l.Name()+": personal model", a.state.Clients[j].Model, b.state.Clients[i].Model, 0)
			}
			if c := a.state.Clients[2]; c.Steps == 0 || marshal(t, c.Model) == marshal(t, a.state.Server.Model) {
				t.Errorf("%s: the late client does not personalise", l.Name())
			}
			for _, m := range a.state.FedMetrics {
				for _, id := range m.Active {
					if id == late.Clients[2].ID {
						t.Errorf("%s: the late client takes part in round %d", l.Name(), m.Round)
					}
				}
			}
		}
	}
}
