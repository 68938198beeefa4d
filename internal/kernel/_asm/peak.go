package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// fmaLoop writes a loop of independent fused multiply-adds on registers, which
// benchmarks take as the peak.
func fmaLoop(level string, regs []reg.VecPhysical, bytes int) {
	const accumulators = 12
	name := "fmaLoopF32" + level
	text(name, "func(n int)",
		fmt.Sprintf("%s does n >= 1 times %d fused multiply-adds of %d lanes that do not depend on one another.", name, accumulators, bytes/4))
	arg("n", reg.RCX)
	for _, r := range regs[:accumulators+2] {
		VXORPS(reg.Y0, reg.Y0, reg.Y0)
		f32.broadcast(reg.X0, r)
	}
	Label("loop")
	for _, r := range regs[2:][:accumulators] {
		f32.fma(regs[0], regs[1], r)
	}
	DECQ(reg.RCX)
	JNZ(LabelRef("loop"))
	finish()
}
