package bench

import (
	"math"
	"strings"
	"testing"
)

func TestJudge(t *testing.T) {
	for _, c := range []struct {
		obtained float64
		atLeast  bool
		want     Verdict
	}{
		{7, false, GoalMet}, {8, false, GoalMet}, {9, false, MustMet}, {17, false, MustMet}, {18, false, Missed}, {math.NaN(), false, Missed},
		{200, true, GoalMet}, {50, true, MustMet}, {10, true, Missed},
	} {
		g := Goal{Must: 17, Want: 8, Obtained: c.obtained, AtLeast: c.atLeast}
		if c.atLeast {
			g.Must, g.Want = 20, 100
		}
		if g.judge(); g.Verdict != c.want {
			t.Errorf("%v, at least %v: %s, want %s", c.obtained, c.atLeast, g.Verdict, c.want)
		}
	}
}

// The goal against other programs counts the judged rows, and the worst of
// them; without any it is not measured.
func TestPeersGoal(t *testing.T) {
	for text, want := range map[string]Goal{
		`{"rows": [{"case": "a", "solver": "OSQP", "ratio": 150, "judged": true}, {"case": "a", "solver": "PIQP", "ratio": 30, "judged": true},
			{"case": "a", "solver": "DAQP", "ratio": 2, "judged": false}]}`: {Obtained: 30, Verdict: MustMet, Parts: "a OSQP: 150, a PIQP: 30"},
		`{"rows": []}`: {Verdict: NotMeasured},
	} {
		p, err := ReadPeers(strings.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		if g := p.goal(); g.Obtained != want.Obtained || g.Verdict != want.Verdict || g.Parts != want.Parts {
			t.Errorf("%s: %+v", text, g)
		}
	}
	var none *Peers
	if g := none.goal(); g.Verdict != NotMeasured || g.Value() != "-" {
		t.Errorf("%+v", g)
	}
	for _, text := range []string{
		"", "<html>", "null", "[]", "{}", `{"rows": null}`, `{"rows": []} trailing`, `{"rows": [{"ratio": NaN}]}`,
		`{"rows": [{"judged": true}]}`, `{"rows": [{"judged": true, "ratio": -3}]}`,
	} {
		if p, err := ReadPeers(strings.NewReader(text)); err == nil || p != nil {
			t.Errorf("%q: %+v, error %v", text, p, err)
		}
	}
}
