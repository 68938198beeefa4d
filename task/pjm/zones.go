package pjm

// Zone is a transmission zone of PJM as the paper uses it.
type Zone struct {
	// ID is the client's in the published table.
	ID int
	// Name is PJM's, and the client's in the published table.
	Name string
	// Demand is k_j: in how many hours of the day the client needs power. The
	// authors drew it from {4, 6, 8, 10, 12}.
	Demand int
	// Latitude and Longitude, in degrees, are those of the zone's largest city
	// or its middle, to ask for its weather.
	Latitude, Longitude float64
	// EIA is the zone's name in the columns of the files of the U.S. Energy
	// Information Administration; empty if it is not in them.
	EIA string
}

// Zones returns the 19 clients of the paper, in order of ID, with the names and
// demands of the published table. The places are ours: the authors' are not
// known.
func Zones() []Zone {
	zones := []Zone{
		{Name: "AECO", Demand: 6, Latitude: 39.36, Longitude: -74.42, EIA: "Atlantic Electric Company"},
		{Name: "AEP", Demand: 6, Latitude: 39.96, Longitude: -83.00, EIA: "American Electric Power Co., Inc"},
		{Name: "APS", Demand: 12, Latitude: 39.63, Longitude: -79.96, EIA: "Allegheny Power System"},
		{Name: "ATSI", Demand: 4, Latitude: 41.50, Longitude: -81.69, EIA: "American Transmission Systems, Inc"},
		{Name: "BGE", Demand: 12, Latitude: 39.29, Longitude: -76.61, EIA: "Baltimore Gas and Electric Company"},
		{Name: "COMED", Demand: 4, Latitude: 41.88, Longitude: -87.63, EIA: "ComEd"},
		{Name: "DAY", Demand: 4, Latitude: 39.76, Longitude: -84.19, EIA: "Dayton Power and Light Company"},
		{Name: "DEOK", Demand: 6, Latitude: 39.10, Longitude: -84.51, EIA: "Duke Energy Ohio/Kentucky"},
		{Name: "DOM", Demand: 10, Latitude: 37.54, Longitude: -77.44, EIA: "Dominion Energy"},
		{Name: "DPL", Demand: 10, Latitude: 39.74, Longitude: -75.55, EIA: "Delmarva Power and Light"},
		{Name: "DUQ", Demand: 6, Latitude: 40.44, Longitude: -80.00, EIA: "Duquesne Light"},
		{Name: "JCPL", Demand: 8, Latitude: 40.22, Longitude: -74.01, EIA: "Jersey Central Power and Light Company"},
		{Name: "METED", Demand: 12, Latitude: 40.34, Longitude: -75.93, EIA: "Metropolitan Edison Company"},
		{Name: "PECO", Demand: 6, Latitude: 39.95, Longitude: -75.17, EIA: "PECO Energy"},
		{Name: "PENELEC", Demand: 6, Latitude: 42.13, Longitude: -80.09, EIA: "Pennsylvania Electric"},
		{Name: "PEPCO", Demand: 10, Latitude: 38.91, Longitude: -77.04, EIA: "Potomac Electric Power"},
		{Name: "PPL", Demand: 10, Latitude: 40.60, Longitude: -75.48, EIA: "PPL Electric Utilities"},
		{Name: "PSEG", Demand: 8, Latitude: 40.74, Longitude: -74.17, EIA: "Public Service Electric and Gas Company"},
		{Name: "RECO", Demand: 8, Latitude: 41.11, Longitude: -74.15, EIA: "Rockland Electric Company"},
	}
	for k := range zones {
		zones[k].ID = k + 1
	}
	return zones
}
