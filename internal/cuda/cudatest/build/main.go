// Command build compiles the emulated CUDA driver and prints its path, for
// FEDRSPO_LIBCUDA and FEDRSPO_LIBCUBLAS.
package main

import (
	"fmt"
	"os"

	"fedrspo/internal/cuda/cudatest"
)

func main() {
	lib, err := cudatest.Build()
	if err != nil {
		fmt.Fprintln(os.Stderr, "build:", err)
		os.Exit(1)
	}
	fmt.Println(lib)
}
