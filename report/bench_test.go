package report

import (
	"path/filepath"
	"testing"

	"fedrspo/run"
)

// BenchmarkWrite is a whole report: three methods, three seeds and a decision.
func BenchmarkWrite(b *testing.B) {
	p := samplePage([]string{"rspo+", "spo+", "mse"}, []int64{1, 2, 3}, federated)
	folder, err := run.Create(filepath.Join(b.TempDir(), "run"))
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if err := Write(folder, p); err != nil {
			b.Fatal(err)
		}
	}
}
