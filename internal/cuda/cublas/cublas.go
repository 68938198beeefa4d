// Package cublas is matrix products by cuBLAS, opened when the program runs:
// any version from 11 to 13 whose library the loader finds. Where there is none,
// [Open] returns [ErrMissing] and callers use kernels of their own.
//
// Its results are the same from run to run on one device: each handle has its
// own workspace, without which cuBLAS chooses by what else runs.
package cublas

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"unsafe"

	"fedrspo/internal/cuda"
	"fedrspo/internal/cuda/driver"
)

// LibraryVariable is the environment variable that names the library to open;
// "none" does without it.
const LibraryVariable = "FEDRSPO_LIBCUBLAS"

// ErrMissing says that there is no cuBLAS.
var ErrMissing = errors.New("cuBLAS is not here")

// library is the functions of cuBLAS.
type library struct {
	name                                                              string
	create, destroy, setStream, setWorkspace, setMathMode, getVersion uintptr
	sgemm, dgemm                                                      uintptr
}

var loaded struct {
	sync.Once
	lib *library
	err error
}

func load() (*library, error) {
	loaded.Do(func() { loaded.lib, loaded.err = find() })
	return loaded.lib, loaded.err
}

func find() (*library, error) {
	names := []string{"libcublas.so.13", "libcublas.so.12", "libcublas.so.11"}
	switch v := os.Getenv(LibraryVariable); v {
	case "":
	case "none":
		return nil, fmt.Errorf("%w: %s is none", ErrMissing, LibraryVariable)
	default:
		names = []string{v}
	}
	l, err := driver.OpenLibrary(names...)
	if err != nil {
		return nil, fmt.Errorf("%w: %w; set %s to its path, or LD_LIBRARY_PATH to its folder", ErrMissing, err, LibraryVariable)
	}
	lib := &library{name: l.Name()}
	for _, f := range []struct {
		name string
		at   *uintptr
	}{
		{"cublasCreate_v2", &lib.create}, {"cublasDestroy_v2", &lib.destroy}, {"cublasSetStream_v2", &lib.setStream},
		{"cublasSetWorkspace_v2", &lib.setWorkspace}, {"cublasSetMathMode", &lib.setMathMode}, {"cublasGetVersion_v2", &lib.getVersion},
		{"cublasSgemm_v2", &lib.sgemm}, {"cublasDgemm_v2", &lib.dgemm},
	} {
		if *f.at, err = l.Symbol(f.name); err != nil {
			return nil, fmt.Errorf("%w: %w", ErrMissing, err)
		}
	}
	return lib, nil
}

// Find returns the name of the library, or an error wrapping ErrMissing.
func Find() (string, error) {
	lib, err := load()
	if err != nil {
		return "", err
	}
	return lib.name, nil
}

// Handle is cuBLAS on a stream. It belongs to the stream's goroutine.
type Handle struct {
	lib       *library
	stream    *cuda.Stream
	handle    uintptr
	workspace cuda.Memory
	// Scalars, which cuBLAS reads through pointers.
	alpha32, beta32 *float32
	alpha64, beta64 *float64
	args            [14]uintptr
}

// workspaceBytes is what cuBLAS recommends for devices of compute capability
// 9.0; it is the same for all, so that a result does not depend on a choice.
const workspaceBytes = 32 << 20

// Math modes of cuBLAS.
const (
	modeDefault = 0 // float32 products of float32
	modeTF32    = 3
)

// Open returns a handle on stream s. With tf32, float32 matrices are rounded to
// 10 bits of fraction on the way into tensor cores; without it, float32 products
// are exact to float32. The error wraps ErrMissing if there is no library.
func Open(s *cuda.Stream, tf32 bool) (*Handle, error) {
	lib, err := load()
	if err != nil {
		return nil, err
	}
	h := &Handle{lib: lib, stream: s, alpha32: new(float32), beta32: new(float32), alpha64: new(float64), beta64: new(float64)}
	*h.alpha32, *h.alpha64 = 1, 1
	if err := status("cublasCreate", driver.Call(lib.create, uintptr(unsafe.Pointer(&h.handle)))); err != nil {
		return nil, err
	}
	if h.workspace, err = s.Device().Alloc(workspaceBytes); err != nil {
		return nil, errors.Join(fmt.Errorf("workspace of cuBLAS: %w", err), h.Close())
	}
	mode := modeDefault
	if tf32 {
		mode = modeTF32
	}
	// The stream comes first: to set it takes the workspace away.
	err = errors.Join(
		status("cublasSetStream", driver.Call(lib.setStream, h.handle, uintptr(s.Handle()))),
		status("cublasSetWorkspace", driver.Call(lib.setWorkspace, h.handle, uintptr(h.workspace.Ptr), workspaceBytes)),
		status("cublasSetMathMode", driver.Call(lib.setMathMode, h.handle, uintptr(mode))))
	if err != nil {
		return nil, errors.Join(err, h.Close())
	}
	return h, nil
}

// Close destroys the handle, after the stream's work is done.
func (h *Handle) Close() error {
	err := status("cublasDestroy", driver.Call(h.lib.destroy, h.handle))
	h.stream.Device().Free(h.workspace)
	h.workspace = cuda.Memory{}
	return err
}

// Version returns the version of cuBLAS, such as 120000.
func (h *Handle) Version() (int, error) {
	var v int32
	err := status("cublasGetVersion", driver.Call(h.lib.getVersion, h.handle, uintptr(unsafe.Pointer(&v))))
	return int(v), err
}

// Gemm queues C = op(A) op(B), or C += op(A) op(B) if accumulate is set, for
// row-major C [m, n], op(A) [m, k] and op(B) [k, n] of elements of elemSize
// bytes, 4 or 8. A matrix that is transposed is stored as its transpose; lda,
// ldb and ldc are the elements between rows as stored.
func (h *Handle) Gemm(elemSize int, transA, transB bool, m, n, k int, a driver.Ptr, lda int, b driver.Ptr, ldb int, c driver.Ptr, ldc int, accumulate bool) {
	if h.stream.Err() != nil || m == 0 || n == 0 {
		return
	}
	// cuBLAS stores by columns: it computes Cᵀ = op(B)ᵀ op(A)ᵀ.
	opA, opB := operation(transA), operation(transB)
	beta := 0.0
	if accumulate {
		beta = 1
	}
	f, alphaAt, betaAt := h.lib.dgemm, unsafe.Pointer(h.alpha64), unsafe.Pointer(h.beta64)
	*h.beta32, *h.beta64 = float32(beta), beta
	if elemSize == 4 {
		f, alphaAt, betaAt = h.lib.sgemm, unsafe.Pointer(h.alpha32), unsafe.Pointer(h.beta32)
	}
	h.args = [...]uintptr{h.handle, opB, opA, uintptr(n), uintptr(m), uintptr(k), uintptr(alphaAt), uintptr(b), uintptr(ldb),
		uintptr(a), uintptr(lda), uintptr(betaAt), uintptr(c), uintptr(ldc)}
	r := driver.CallSlice(f, h.args[:])
	if r != 0 {
		h.stream.Fail(fmt.Errorf("product of %dx%d and %dx%d: %w", m, k, k, n, status("cublasGemm", r)))
	}
}

// operation is CUBLAS_OP_N or CUBLAS_OP_T.
func operation(transposed bool) uintptr {
	if transposed {
		return 1
	}
	return 0
}

var statusNames = map[int]string{
	1: "not initialized", 3: "allocation failed", 7: "invalid value", 8: "architecture mismatch", 11: "mapping error",
	13: "execution failed", 14: "internal error", 15: "not supported", 16: "license error",
}

func status(call string, r int) error {
	if r == 0 {
		return nil
	}
	return fmt.Errorf("%s: %s (cuBLAS status %d)", call, statusNames[r], r)
}
