// MemcachedGPU (Hetherington, O'Connor, Aamodt: "MemcachedGPU: Scaling-up Scale-out Key-value Stores", SoCC 2015).
#include "bench/papers/memcached_gpu.hpp"

#include <array>
#include <string_view>

#include "bench/papers/mega_kv.hpp"
#include "bench/papers/paper.hpp"

namespace tandem::bench::memcached_gpu_paper {
namespace {

constexpr std::string_view no_network =
    "the network: frames are in memory, so none is dropped, and a round trip ends where the reply lies ready";

constexpr std::array experiments = {
    Experiment{
        "2", "miss rate of a set-associative table by size and associativity", "section 5.2",
        "the paper's traces, which are not published: this one is drawn as the text says, a SET of each of 10 million "
        "keys, then 10 million requests, 5 % SETs, zipf 0.99; a GET that misses is not followed by a SET",
        figure_2},
    Experiment{"table-3", "GET throughput and drop rate at 10 GbE", "section 5.3", no_network, table_3},
    Experiment{"3", "round-trip time by throughput", "section 5.3", no_network, figure_3},
    Experiment{"4", "power and energy efficiency by throughput", "section 5.3",
               "the whole system's power at the wall: the GPU's here, and the processors' where they tell it", figure_4,
               no_meter},
    Experiment{"5", "round-trip time and throughput by key lengths and hit rate", "section 5.3", no_network, figure_5,
               no_gpu},
    Experiment{"table-4", "GETs and SETs together", "section 5.3", no_network, table_4},
    Experiment{"6", "round-trip time while a background task runs on the GPU", "section 5.4", no_network, figure_6,
               no_gpu},
    Experiment{"7", "time of that background task by its number of kernels", "section 5.4", no_network, figure_7,
               no_gpu},
    Experiment{"table-5", "throughput and latency offline", "section 5.5",
               "energy: the paper's is the whole system's, at the wall", table_5},
    Experiment{"table-6", "comparison with previous work", "section 5.6",
               "energy and cost; its row of an unmodified memcached is a peer of `tandem bench compare`", table_6},
};

}  // namespace
}  // namespace tandem::bench::memcached_gpu_paper

namespace tandem::bench {

const Paper& memcached_gpu() {
  static const Paper paper = {"memcachedgpu", "MemcachedGPU, SoCC 2015",
                              "Core i7-4770K, 16 GB; Tesla K20c, GTX Titan or GTX 750Ti; 10 GbE",
                              memcached_gpu_paper::experiments};
  return paper;
}

}  // namespace tandem::bench
