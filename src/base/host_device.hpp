// Marks of functions that host and device compile from one source.
#pragma once

#if defined(__CUDACC__)
#define TD_WORD __host__ __device__ __forceinline__  // words: both sides
#define TD_LANE __device__ __forceinline__           // lanes and algorithm: in a .cu they exist on the device only
#define TD_UNROLLED _Pragma("unroll")                // before a loop: arrays that it indexes stay in registers
#else
#define TD_WORD inline __attribute__((always_inline))
#define TD_LANE inline __attribute__((always_inline))
#define TD_UNROLLED
#endif
