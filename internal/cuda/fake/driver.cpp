// A CUDA driver, and the few functions of cuBLAS that are used, for tests on
// machines without a GPU. It is strict where a real one is undefined:
//
//   - Device memory can be touched only inside calls, and only the allocations
//     that a call names: else it is PROT_NONE. Each allocation ends at a page
//     that is never open, and starts full of bytes that make NaN.
//   - Calls need a context that is current on the thread, streams that live, and
//     page-locked host memory for copies.
//   - A kernel's name and the sizes of its parameters must be the same in the
//     PTX that is loaded and in the sources that were compiled.
//   - Either all threads of a block reach a barrier, or none does.
//
// It runs all work at once, and so does not test order, races or speed.
#include "device.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>

#include <mutex>
#include <set>
#include <vector>

dim threadIdx, blockIdx, blockDim, gridDim;
std::map<std::string, kernel> &registry() {
  static std::map<std::string, kernel> r;
  return r;
}

#define API extern "C" __attribute__((visibility("default"))) int

enum {
  SUCCESS = 0, INVALID_VALUE = 1, OUT_OF_MEMORY = 2, NO_DEVICE = 100, INVALID_DEVICE = 101, INVALID_CONTEXT = 201,
  INVALID_PTX = 218, INVALID_HANDLE = 400, NOT_FOUND = 500
};

// What tests set and read, by fakecuda_set and fakecuda_get.
static long devices = 1, capability = 90, version = 13000, memory = 4l << 30;
static long launches, copies, syncs, live_host;

static int complain(int result, const char *format, ...) {
  va_list a;
  va_start(a, format);
  fprintf(stderr, "fake CUDA driver: ");
  vfprintf(stderr, format, a);
  fprintf(stderr, "\n");
  va_end(a);
  return result;
}

// ---- Memory.

static const size_t page = 4096, arena_size = 64l << 30;
static char *arena;
static size_t used, live_bytes;
static std::map<uint64_t, size_t> live;  // address, bytes
static std::map<char *, size_t> pinned;
static std::recursive_mutex lock;
static thread_local void *current;

static void protect(uint64_t p, size_t n, int mode) {
  uint64_t from = p & ~(page - 1);
  mprotect((void *)from, ((p + n + page - 1) & ~(page - 1)) - from, mode);
}
// Holds the allocations that some addresses lie in open.
struct opened {
  std::vector<std::pair<uint64_t, size_t>> pieces;
  void add(uint64_t p) {
    auto l = live.upper_bound(p);
    if (l == live.begin()) return;
    --l;
    if (p >= l->first + l->second) return;
    pieces.push_back(*l);
    protect(l->first, l->second, PROT_READ | PROT_WRITE);
  }
  ~opened() {
    for (auto &l : pieces) protect(l.first, l.second, PROT_NONE);
  }
};

// Every function with a context begins so.
#define ENTER                                                                     \
  std::lock_guard<std::recursive_mutex> guard(lock);                              \
  if (!current) return complain(INVALID_CONTEXT, "%s without a context", __func__);

static bool on_device(uint64_t p, size_t n) {
  auto l = live.upper_bound(p);
  if (l == live.begin()) return false;
  --l;
  return p + n <= l->first + l->second;
}
static bool is_pinned(const void *p, size_t n) {
  auto l = pinned.upper_bound((char *)p);
  if (l == pinned.begin()) return false;
  --l;
  return (char *)p + n <= l->first + l->second;
}

API cuMemAlloc_v2(uint64_t *p, size_t n) {
  ENTER
  if (n == 0) return INVALID_VALUE;
  if (live_bytes + n > (size_t)memory) return OUT_OF_MEMORY;
  if (!arena) arena = (char *)mmap(0, arena_size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  size_t rounded = (n + 255) & ~255ul, pages = (rounded + page - 1) & ~(page - 1);
  if (arena == MAP_FAILED || used + pages + page > arena_size) return OUT_OF_MEMORY;
  char *begin = arena + used + page;
  used += pages + page;
  mprotect(begin, pages, PROT_READ | PROT_WRITE);
  memset(begin, 0xff, pages);
  // As near to the closed page behind it as an alignment of 16 bytes allows.
  *p = (uint64_t)(begin + pages - ((n + 15) & ~15ul));
  live[*p] = n;
  live_bytes += n;
  mprotect(begin, pages, PROT_NONE);
  return SUCCESS;
}
API cuMemFree_v2(uint64_t p) {
  ENTER
  auto l = live.find(p);
  if (l == live.end()) return complain(INVALID_VALUE, "free of an address that is not allocated");
  protect(p, l->second, PROT_READ | PROT_WRITE);
  madvise((void *)(p & ~(page - 1)), l->second, MADV_DONTNEED);
  protect(p, l->second, PROT_NONE);
  live_bytes -= l->second;
  live.erase(l);
  return SUCCESS;
}
API cuMemAllocHost_v2(void **p, size_t n) {
  ENTER
  if (n == 0 || posix_memalign(p, page, n)) return OUT_OF_MEMORY;
  memset(*p, 0xff, n);
  pinned[(char *)*p] = n;
  live_host++;
  return SUCCESS;
}
API cuMemFreeHost(void *p) {
  ENTER
  if (!pinned.erase((char *)p)) return complain(INVALID_VALUE, "free of host memory that is not page-locked");
  free(p);
  live_host--;
  return SUCCESS;
}
API cuMemGetInfo_v2(size_t *free_bytes, size_t *total) {
  ENTER
  *free_bytes = memory - live_bytes;
  *total = memory;
  return SUCCESS;
}

// ---- Devices and contexts.

static bool initialised;
API cuInit(unsigned flags) {
  initialised = true;
  return devices == 0 ? NO_DEVICE : SUCCESS;
}
API cuDriverGetVersion(int *v) {
  *v = (int)version;
  return SUCCESS;
}
API cuDeviceGetCount(int *n) {
  if (!initialised) return complain(3, "no cuInit");
  *n = (int)devices;
  return SUCCESS;
}
API cuDeviceGet(int *d, int ordinal) {
  if (ordinal < 0 || ordinal >= devices) return INVALID_DEVICE;
  *d = ordinal;
  return SUCCESS;
}
API cuDeviceGetName(char *name, int size, int d) {
  snprintf(name, size, "Emulated device %d", d);
  return SUCCESS;
}
API cuDeviceTotalMem_v2(size_t *n, int) {
  *n = memory;
  return SUCCESS;
}
API cuDeviceGetAttribute(int *v, int attribute, int) {
  switch (attribute) {
    case 16: *v = 4; break;
    case 20: *v = 0; break;
    case 75: *v = (int)capability / 10; break;
    case 76: *v = (int)capability % 10; break;
    default: return complain(INVALID_VALUE, "attribute %d", attribute);
  }
  return SUCCESS;
}
static int contexts[64];
API cuDevicePrimaryCtxRetain(void **c, int d) {
  *c = &contexts[d];
  return SUCCESS;
}
API cuDevicePrimaryCtxRelease_v2(int) { return SUCCESS; }
API cuCtxSetCurrent(void *c) {
  current = c;
  return SUCCESS;
}

// ---- Streams and events.

static std::set<void *> streams, events;
static bool bad_stream(void *s) { return s && !streams.count(s); }
API cuStreamCreate(void **s, unsigned) {
  ENTER
  *s = malloc(1);
  streams.insert(*s);
  return SUCCESS;
}
API cuStreamDestroy_v2(void *s) {
  ENTER
  if (!streams.erase(s)) return complain(INVALID_HANDLE, "a stream that does not live");
  free(s);
  return SUCCESS;
}
API cuStreamSynchronize(void *s) {
  ENTER
  syncs++;
  return bad_stream(s) ? complain(INVALID_HANDLE, "a stream that does not live") : SUCCESS;
}
API cuEventCreate(void **e, unsigned) {
  ENTER
  *e = malloc(1);
  events.insert(*e);
  return SUCCESS;
}
API cuEventDestroy_v2(void *e) {
  ENTER
  if (!events.erase(e)) return INVALID_HANDLE;
  free(e);
  return SUCCESS;
}
API cuEventRecord(void *e, void *s) {
  ENTER
  return !events.count(e) || bad_stream(s) ? INVALID_HANDLE : SUCCESS;
}
API cuEventSynchronize(void *e) {
  ENTER
  return events.count(e) ? SUCCESS : INVALID_HANDLE;
}
API cuEventElapsedTime(float *ms, void *a, void *b) {
  ENTER
  *ms = 0.25f;
  return events.count(a) && events.count(b) ? SUCCESS : INVALID_HANDLE;
}

// ---- Copies.

static int copy(const char *what, void *dst, const void *src, size_t n, bool ok, void *s) {
  if (bad_stream(s)) return complain(INVALID_HANDLE, "%s in a stream that does not live", what);
  if (!ok) return complain(INVALID_VALUE, "%s of %zu bytes outside an allocation, or of host memory that is not page-locked", what, n);
  opened o;
  o.add((uint64_t)dst);
  o.add((uint64_t)src);
  memmove(dst, src, n);
  copies++;
  return SUCCESS;
}
API cuMemcpyHtoDAsync_v2(uint64_t d, const void *h, size_t n, void *s) {
  ENTER
  return copy("copy to the device", (void *)d, h, n, on_device(d, n) && is_pinned(h, n), s);
}
API cuMemcpyDtoHAsync_v2(void *h, uint64_t d, size_t n, void *s) {
  ENTER
  return copy("copy to the host", h, (void *)d, n, on_device(d, n) && is_pinned(h, n), s);
}
API cuMemcpyDtoDAsync_v2(uint64_t d, uint64_t from, size_t n, void *s) {
  ENTER
  return copy("copy on the device", (void *)d, (void *)from, n, on_device(d, n) && on_device(from, n), s);
}
API cuMemsetD8Async(uint64_t d, unsigned char v, size_t n, void *s) {
  ENTER
  if (bad_stream(s) || !on_device(d, n)) return complain(INVALID_VALUE, "memset of %zu bytes", n);
  opened o;
  o.add(d);
  memset((void *)d, v, n);
  return SUCCESS;
}

// ---- Modules.

struct module { std::string image, type; };
struct function {
  std::string name;
  kernel k;
  bool barriers;
};
static std::set<void *> modules, functions;

API cuModuleLoadDataEx(void **m, const char *image, unsigned options, int *option, void **value) {
  ENTER
  std::string s(image);
  std::string type = s.find("-DREAL=float") != std::string::npos ? "float" : "double";
  if (s.find(".version") == std::string::npos || s.find(".target") == std::string::npos) {
    for (unsigned i = 0; i < options; i++)
      if (option[i] == 5) strcpy((char *)value[i], "fatal: no .version");
    return INVALID_PTX;
  }
  *m = new module{s, type};
  modules.insert(*m);
  return SUCCESS;
}
API cuModuleLoadData(void **m, const char *image) { return cuModuleLoadDataEx(m, image, 0, 0, 0); }
API cuModuleUnload(void *m) {
  ENTER
  if (!modules.erase(m)) return INVALID_HANDLE;
  delete (module *)m;
  return SUCCESS;
}

// The sizes of the parameters of an entry in PTX, and whether it has barriers.
static bool parse_entry(const std::string &image, const std::string &name, std::vector<int> &sizes, bool &barriers) {
  size_t p = image.find(".entry " + name + "(");
  if (p == std::string::npos) return false;
  size_t end = image.find(')', p), body = image.find('{', end);
  for (size_t q = p; (q = image.find(".param .", q)) < end; q++) {
    const char *t = image.c_str() + q + 8;
    sizes.push_back(atoi(t + 1) / 8);
  }
  int nested = 0;
  size_t i = body;
  for (; i < image.size(); i++) {
    if (image[i] == '{') nested++;
    if (image[i] == '}' && --nested == 0) break;
  }
  std::string code = image.substr(body, i - body);
  barriers = code.find("bar.sync") != std::string::npos || code.find("barrier") != std::string::npos;
  return true;
}
API cuModuleGetFunction(void **f, void *m, const char *name) {
  ENTER
  if (!modules.count(m)) return INVALID_HANDLE;
  module *mod = (module *)m;
  std::vector<int> sizes;
  bool barriers = false;
  if (!parse_entry(mod->image, name, sizes, barriers)) return NOT_FOUND;
  auto k = registry().find(mod->type + "/" + name);
  if (k == registry().end()) return complain(NOT_FOUND, "the PTX has %s, the sources have not", name);
  bool same = (int)sizes.size() == k->second.params;
  for (size_t i = 0; same && i < sizes.size(); i++) same = sizes[i] == k->second.sizes[i];
  if (!same) return complain(INVALID_VALUE, "%s has other parameters in the PTX than in the sources", name);
  *f = new function{name, k->second, barriers};
  functions.insert(*f);
  return SUCCESS;
}

// ---- Launches.

// A thread of a block with barriers. It is made once and runs one thread of one
// block after the other.
struct fiber {
  ucontext_t start;
  jmp_buf at;
  dim index;
  bool started, done;
  char stack[64 << 10];
};
static std::vector<fiber *> fibers;
static jmp_buf scheduler;
static fiber *running;
static void (*running_call)(void **);
static void **running_args;

void fake_barrier() {
  if (!running) {
    complain(0, "a barrier in a kernel whose PTX has none");
    abort();
  }
  fiber *f = running;
  if (_setjmp(f->at) == 0) _longjmp(scheduler, 1);
  threadIdx = f->index;
}
static void run_fiber() {
  for (;;) {
    fiber *f = running;
    threadIdx = f->index;
    running_call(running_args);
    f = running;
    f->done = true;
    fake_barrier();
  }
}
static void resume(fiber *f) {
  running = f;
  if (_setjmp(scheduler) != 0) return;
  if (f->started) _longjmp(f->at, 1);
  f->started = true;
  setcontext(&f->start);
}
static int run_block(unsigned threads, dim block) {
  while (fibers.size() < threads) {
    fiber *f = new fiber;
    f->started = false;
    getcontext(&f->start);
    f->start.uc_stack.ss_sp = f->stack;
    f->start.uc_stack.ss_size = sizeof f->stack;
    f->start.uc_link = 0;
    makecontext(&f->start, run_fiber, 0);
    fibers.push_back(f);
  }
  for (unsigned t = 0; t < threads; t++) {
    fibers[t]->done = false;
    fibers[t]->index = {t % block.x, t / block.x % block.y, t / (block.x * block.y)};
  }
  for (unsigned done = 0; done < threads;) {
    done = 0;
    for (unsigned t = 0; t < threads; t++) {
      resume(fibers[t]);
      done += fibers[t]->done;
    }
    if (done != 0 && done != threads) return complain(719, "a thread ended before a barrier that others reached");
  }
  running = 0;
  return SUCCESS;
}
API cuLaunchKernel(void *handle, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                   unsigned shared, void *s, void **args, void **) {
  ENTER
  if (!functions.count(handle)) return complain(INVALID_HANDLE, "launch of something that is no kernel");
  function *f = (function *)handle;
  if (bad_stream(s)) return complain(INVALID_HANDLE, "%s in a stream that does not live", f->name.c_str());
  if (!gx || !gy || !gz || !bx || !by || !bz || (long)bx * by * bz > 1024 || gx > 2147483647u || gy > 65535 || gz > 65535 || shared)
    return complain(INVALID_VALUE, "launch of %s with grid %u,%u,%u and block %u,%u,%u", f->name.c_str(), gx, gy, gz, bx, by, bz);
  launches++;
  opened o;
  for (int i = 0; i < f->k.params; i++)
    if (f->k.sizes[i] == 8) o.add(*(uint64_t *)args[i]);
  gridDim = {gx, gy, gz};
  blockDim = {bx, by, bz};
  unsigned threads = bx * by * bz;
  running_call = f->k.call;
  running_args = args;
  running = 0;
  for (unsigned z = 0; z < gz; z++)
    for (unsigned y = 0; y < gy; y++)
      for (unsigned x = 0; x < gx; x++) {
        blockIdx = {x, y, z};
        if (f->barriers) {
          if (int r = run_block(threads, blockDim)) return complain(r, "in %s", f->name.c_str());
          continue;
        }
        for (unsigned t = 0; t < threads; t++) {
          threadIdx = {t % bx, t / bx % by, t / (bx * by)};
          f->k.call(args);
        }
      }
  return SUCCESS;
}

// ---- For tests.

static long *variable(const char *name) {
  static std::map<std::string, long *> v = {
      {"devices", &devices}, {"capability", &capability}, {"version", &version}, {"memory", &memory},
      {"launches", &launches}, {"copies", &copies}, {"syncs", &syncs}, {"live host", &live_host}};
  auto i = v.find(name);
  return i == v.end() ? 0 : i->second;
}
API fakecuda_set(const char *name, long value) {
  std::lock_guard<std::recursive_mutex> guard(lock);
  long *v = variable(name);
  if (v) *v = value;
  return v ? 0 : 1;
}
API fakecuda_get(const char *name) {
  std::lock_guard<std::recursive_mutex> guard(lock);
  if (!strcmp(name, "live")) return (int)live.size();
  long *v = variable(name);
  return v ? (int)*v : -1;
}

// ---- cuBLAS: products of matrices that are stored by columns.

struct blas {
  void *stream = 0;
  uint64_t workspace = 0;
  int mode = 0;
};
static int blas_mode = -1;
API cublasCreate_v2(blas **h) {
  ENTER
  *h = new blas;
  return 0;
}
API cublasDestroy_v2(blas *h) {
  delete h;
  return 0;
}
API cublasGetVersion_v2(blas *, int *v) {
  *v = 120000;
  return 0;
}
API cublasSetStream_v2(blas *h, void *s) {
  ENTER
  if (bad_stream(s)) return 7;
  h->stream = s;
  h->workspace = 0;  // cuBLAS goes back to its own workspace
  return 0;
}
API cublasSetWorkspace_v2(blas *h, uint64_t p, size_t n) {
  ENTER
  if (!on_device(p, n)) return 7;
  h->workspace = p;
  return 0;
}
API cublasSetMathMode(blas *h, int mode) {
  h->mode = mode;
  blas_mode = mode;
  return 0;
}
API fakecublas_mode() { return blas_mode; }

template <class T>
static int product(blas *h, int ta, int tb, int m, int n, int k, const T *alpha, const T *a, int lda, const T *b, int ldb,
                   const T *beta, T *c, int ldc) {
  ENTER
  if (!h->workspace) return complain(7, "cuBLAS without a workspace of its own");
  if (m < 1 || n < 1 || k < 1 || lda < (ta ? k : m) || ldb < (tb ? n : k) || ldc < m)
    return complain(7, "cuBLAS gemm %d %d, %dx%dx%d, leading dimensions %d %d %d", ta, tb, m, n, k, lda, ldb, ldc);
  opened o;
  o.add((uint64_t)a);
  o.add((uint64_t)b);
  o.add((uint64_t)c);
  launches++;
  for (int j = 0; j < n; j++)
    for (int i = 0; i < m; i++) {
      T sum = 0;
      for (int l = 0; l < k; l++)
        sum = fma(a[ta ? l + (size_t)i * lda : i + (size_t)l * lda], b[tb ? j + (size_t)l * ldb : l + (size_t)j * ldb], sum);
      T *to = c + i + (size_t)j * ldc;
      *to = *beta == 0 ? *alpha * sum : *alpha * sum + *beta * *to;
    }
  return 0;
}
API cublasSgemm_v2(blas *h, int ta, int tb, int m, int n, int k, const float *alpha, const float *a, int lda,
                   const float *b, int ldb, const float *beta, float *c, int ldc) {
  return product(h, ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
}
API cublasDgemm_v2(blas *h, int ta, int tb, int m, int n, int k, const double *alpha, const double *a, int lda,
                   const double *b, int ldb, const double *beta, double *c, int ldc) {
  return product(h, ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
}
