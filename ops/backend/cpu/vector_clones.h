#pragma once

// Private to ops/backend/cpu.
//
// HORO_VECTOR_CLONES before a function compiles it for AVX-512, for AVX2 and for every x86-64
// processor. The program selects the best of them for its processor when it starts. What the
// function calls must be inlined, because functions outside of it are compiled for every processor.
// Files that use it are compiled with -ffp-contract=off, so that every product is rounded whichever
// clone runs. Sums may still differ between processors, because a wider vector adds in another
// order.
//
// Other compilers and processors, and the sanitizers, whose runtime is not ready when clones are
// selected, get the plain function.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && \
    !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define HORO_VECTOR_CLONES \
  __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define HORO_VECTOR_CLONES
#endif
