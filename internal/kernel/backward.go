package kernel

import "fmt"

// ColSums computes the gradient of a bias: db[j] = sum_i dz[i,j], over the m
// rows of dz [m, n], stored without gaps. Rows are added in ascending order to
// zero, or to db[j] when accumulate is set.
func ColSums[T Float](db, dz []T, m, n int, accumulate bool) {
	checkRows("ColSums", m, n, len(db), len(dz))
	if !accumulate {
		clear(db)
	}
	j := colSumsVector(db, dz, m, n)
	colSumsGeneric(db, dz, m, n, j)
}

// colSumsGeneric handles columns [from, n).
func colSumsGeneric[T Float](db, dz []T, m, n, from int) {
	if from == n {
		return
	}
	db = db[from:n]
	for i := range m {
		row := dz[i*n+from : (i+1)*n][:len(db)]
		for j, v := range row {
			db[j] += v
		}
	}
}

// ReLUGrad computes the gradient before a ReLU from the one behind it:
// dz[i] = dy[i] where y[i] > 0, else 0. The output y of the ReLU and its input
// serve alike. dz may be dy.
func ReLUGrad[T Float](dz, dy, y []T) {
	if len(dz) != len(dy) || len(dz) != len(y) {
		panic(fmt.Sprintf("kernel.ReLUGrad: lengths %d, %d and %d differ", len(dz), len(dy), len(y)))
	}
	n := reluGradVector(dz, dy, y)
	reluGradGeneric(dz[n:], dy[n:], y[n:])
}

func reluGradGeneric[T Float](dz, dy, y []T) {
	dz, dy = dz[:len(y)], dy[:len(y)]
	for i, v := range y {
		g := dy[i]
		if !(v > 0) {
			g = 0
		}
		dz[i] = g
	}
}

// ReLUGradColSums is ReLUGrad followed by ColSums in one pass over [m, n]
// matrices stored without gaps: dz = dy where y > 0, else 0, and
// db[j] = sum_i dz[i,j]. It returns the same bits as the two calls. dz may be
// dy.
func ReLUGradColSums[T Float](dz, db, dy, y []T, m, n int, accumulate bool) {
	checkRows("ReLUGradColSums", m, n, len(db), len(dz))
	if len(dy) != m*n || len(y) != m*n {
		panic(fmt.Sprintf("kernel.ReLUGradColSums: dy and y of %d and %d elements, want m*n=%d", len(dy), len(y), m*n))
	}
	if !accumulate {
		clear(db)
	}
	j := reluGradColSumsVector(dz, db, dy, y, m, n)
	reluGradColSumsGeneric(dz, db, dy, y, m, n, j)
}

// reluGradColSumsGeneric handles columns [from, n).
func reluGradColSumsGeneric[T Float](dz, db, dy, y []T, m, n, from int) {
	if from == n {
		return
	}
	db = db[from:n]
	for i := range m {
		lo, hi := i*n+from, (i+1)*n
		reluGradGeneric(dz[lo:hi], dy[lo:hi], y[lo:hi])
		for j, v := range dz[lo:hi][:len(db)] {
			db[j] += v
		}
	}
}

// checkRows panics unless db holds n and dz m*n elements.
func checkRows(name string, m, n, lenDb, lenDz int) {
	if m < 0 || n < 0 || lenDb != n || lenDz != m*n {
		panic(fmt.Sprintf("kernel.%s: db and dz of %d and %d elements for m=%d, n=%d, want n and m*n", name, lenDb, lenDz, m, n))
	}
}
