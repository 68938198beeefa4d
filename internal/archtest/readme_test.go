package archtest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestReadmeExample compares the Go code of the README with the tested example
// it is taken from.
func TestReadmeExample(t *testing.T) {
	readme, err := os.ReadFile(filepath.Join("..", "..", "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	example, err := os.ReadFile(filepath.Join("..", "..", "experiment", "example_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	_, code, ok := strings.Cut(string(readme), "```go\n")
	code, _, ok2 := strings.Cut(code, "```")
	if !ok || !ok2 || strings.TrimSpace(code) == "" {
		t.Fatal("the README has no Go code")
	}
	var indented strings.Builder
	for line := range strings.Lines(code) {
		indented.WriteString("\t" + line)
	}
	if !strings.Contains(string(example), indented.String()) {
		t.Errorf("experiment/example_test.go does not contain the README's code:\n%s", code)
	}
}
