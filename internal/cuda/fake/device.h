// Lets the kernels' sources be compiled by a host compiler and run in host
// memory: the threads of a block are fibers of one thread, the blocks run one
// after the other, and shared memory is static.
#pragma once
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <utility>

struct dim { unsigned x, y, z; };
extern dim threadIdx, blockIdx, blockDim, gridDim;
void fake_barrier();

#define __global__
#define __device__
#define __shared__ static
#define __syncthreads() fake_barrier()
#define ENTRY(name) static void name
using std::fma;
using std::sqrt;

// A kernel that was compiled, called with pointers to its arguments.
struct kernel {
  void (*call)(void **);
  int params;
  const int *sizes;  // bytes of each
};
std::map<std::string, kernel> &registry();

template <class F> struct signature;
template <class... A> struct signature<void (*)(A...)> {
  static constexpr int params = sizeof...(A);
  static const int *sizes() {
    static const int s[] = {(int)sizeof(A)...};
    return s;
  }
  template <void (*f)(A...), size_t... I> static void unpack(void **p, std::index_sequence<I...>) { f(*(A *)p[I]...); }
  template <void (*f)(A...)> static void call(void **p) { unpack<f>(p, std::index_sequence_for<A...>{}); }
};
struct registration {
  registration(const char *name, kernel k) { registry()[name] = k; }
};
#define REGISTER(type, name)                                    \
  static registration registered_##name(#type "/" #name,        \
                                        {&signature<decltype(&name)>::call<&name>, signature<decltype(&name)>::params, \
                                         signature<decltype(&name)>::sizes()});
