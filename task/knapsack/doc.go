// Package knapsack is the fractional knapsack task: data, generated or your
// own, and the [task.Task] made of them.
//
// Client j has the feasible set { w in [0,1]^d : a_j.w <= b_j } with positive
// item weights a_j and a capacity b_j, and samples of p features x and d true
// costs c. A predictor learns to map x to c so that the decision made from its
// prediction has a low true cost.
//
// # Signs: costs are negated values
//
// Everything is minimised. The paper writes the task as max value.w (appendix
// C.2); if your items have values to maximise, write c = -value. An item whose
// cost is positive or zero is left out of the knapsack. Generated costs are
// all negative.
//
// # Generated data
//
// [Generate] draws the synthetic data of the paper (appendix C.2), with
// heterogeneity between clients in the objective, in the constraint and in the
// features, each with a dial of its own.
//
// # Your own data
//
// A dataset is a folder of four tables in CSV (RFC 4180) and a description;
// [Load] reads it and [Dataset.Export] writes it. Sizes are free.
//
//	dataset.json     {"format": "fedrspo-knapsack-1", "name": "my-task", "items": 3, "features": 2}
//	clients.csv      client,name,capacity,weight_0,weight_1,weight_2
//	train.csv        client,x_0,x_1,c_0,c_1,c_2
//	validation.csv   as train.csv
//	test.csv         as train.csv
//
// client is a whole number, not negative, that identifies the client; name is
// for people. weight_i is the weight of item i, positive; capacity has the same
// unit, not negative. x_k are the features as they are measured: the task
// standardises them. c_i is the true cost of item i. All numbers are finite,
// with a decimal point. Rows may come in any order; those of one client keep
// theirs. A table may have no rows but must be there with its header;
// train.csv needs at least one row. A client without training rows is allowed:
// it does not train, and is judged by the model of the others.
package knapsack
