// Package pjm is the task of buying energy on the day-ahead market of PJM, the
// grid operator of thirteen U.S. states (paper, section 4.2 and appendix
// C.3): data, published, built from raw sources, generated or of one hub, and
// the [task.Task] made of them.
//
// Client j, a zone of the grid, needs full power in k_j of the 24 hours of a
// day: its feasible set is { w in [0,1]^24 : sum w = k_j }. The cost of hour h is
//
//	c_h = LMP_h + congestion_h   ($/MWh)
//
// with the zone's locational marginal price LMP and the congestion column of
// the published table, which is the price's difference to the mean over all
// zones: congestion_h = LMP_h - mean_i LMP_ih ([Dataset.CheckCongestion]). A
// predictor maps eight numbers known the day before, seven about the weather and
// the day of the week, to the 24 costs. Prices may be negative.
//
// # Files
//
// [Load] reads the table that the authors published, one CSV row per client and
// date, and [Dataset.Export] writes it: docs/data.md describes it. Load also
// reads a table of one hub, with hours 1 to 25, whose data all clients then
// share. [Prices] and [Weather] read raw sources, and [Build] joins them to the
// same table.
//
// # Hours
//
// Hours begin at 0:00 to 23:00 of Eastern Prevailing Time. As in the published
// table, the day of 23 hours in spring is left out, and in the day of 25 hours
// in autumn the price of 1:00 is the mean of its two; that day's weather is
// averaged over 25 hours.
package pjm
