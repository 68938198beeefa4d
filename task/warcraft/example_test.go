package warcraft_test

import (
	"fmt"

	"fedrspo/task/warcraft"
)

// The task on generated maps: features are pictures, costs those of the cells,
// and every client has its own way to go.
func Example() {
	d, err := warcraft.Generate(warcraft.Config{Seed: 42, Maps: 500, Test: 60})
	if err != nil {
		fmt.Println(err)
		return
	}
	t, err := d.Task()
	if err != nil {
		fmt.Println(err)
		return
	}
	c := t.Clients[12]
	source, sink, err := d.Endpoints(c.ID)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("%d clients, %d numbers to %d costs\n", len(t.Clients), t.In, t.Out)
	fmt.Printf("client %d goes from (%d, %d) to (%d, %d)\n", c.ID, source.Row, source.Col, sink.Row, sink.Col)
	fmt.Printf("%d maps to learn from, %d to validate, %d to test\n", c.Train.Len(), c.Val.Len(), c.Test.Len())
	// Output:
	// 44 clients, 27648 numbers to 144 costs
	// client 13 goes from (1, 11) to (10, 0)
	// 8 maps to learn from, 2 to validate, 60 to test
}
