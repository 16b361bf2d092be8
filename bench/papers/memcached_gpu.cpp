// MemcachedGPU (Hetherington, O'Connor, Aamodt: "MemcachedGPU: Scaling-up Scale-out Key-value Stores", SoCC 2015).
#include <fmt/format.h>

#include <array>
#include <string>

#include "bench/papers/paper.hpp"

namespace tandem::bench {
namespace {

void table_5(PaperRun& run) {
  // Section 5.1: keys of 16 bytes, values of 2, only GETs; 512 requests a batch (section 5.3).
  EngineSettings settings = run.engine_settings({"K16-V2-G100-U"});
  settings.batches = {512};
  const Json cells = run.engine(settings);
  const PaperRun::Point rate = PaperRun::throughput(cells[0], "throughput, Mops/s");
  std::vector<double> batch_us;
  for (const std::size_t r : rate.runs)
    batch_us.push_back(run.document()["runs"][r]["result"]["batch_us"].get<double>());
  run.axes("measure", "throughput, and latency of a batch", "as named");
  run.measured("CPU plan, batches of 512", {rate, {"mean latency of a batch, us", spread_of(batch_us), rate.runs}});
  run.given("paper: Tesla K20c", "table 5", {{"throughput, Mops/s", 27.5}, {"mean latency of a batch, us", 353.4}});
  run.given("paper: GTX Titan", "table 5", {{"throughput, Mops/s", 27.7}, {"mean latency of a batch, us", 301.1}});
  run.given("paper: GTX 750Ti", "table 5", {{"throughput, Mops/s", 28.3}, {"mean latency of a batch, us", 263.6}});
}

constexpr std::string_view needs_gpu_server =
    "needs the GPU index and request handling on the GPU; the CPU server's curve is `tandem bench compare`'s";

constexpr std::array memcached_gpu_experiments = {
    Experiment{
        "2", "miss rate of a set-associative table by size and associativity", "section 5.2",
        "needs a set-associative GPU index: Tandem's index moves cells and never evicts for the sake of a bucket"},
    Experiment{"table-3", "GET throughput and drop rate at 10 GbE", "section 5.3", needs_gpu_server},
    Experiment{"3", "round-trip time by throughput", "section 5.3", needs_gpu_server},
    Experiment{"4", "power and energy efficiency by throughput", "section 5.3",
               "needs the GPU index and a meter for the whole machine's power"},
    Experiment{"5", "round-trip time and throughput by key lengths and hit rate", "section 5.3", needs_gpu_server},
    Experiment{"table-4", "GETs and SETs together", "section 5.3", needs_gpu_server},
    Experiment{"6", "round-trip time while a background task runs on the GPU", "section 5.4",
               "needs the GPU index, and other work on the same GPU"},
    Experiment{"7", "time of that background task by its number of kernels", "section 5.4",
               "needs the GPU index, and other work on the same GPU"},
    Experiment{"table-5", "throughput and latency offline", "section 5.5",
               "the GPUs' side: needs the GPU index; energy: the paper's is the whole system's, at the wall", table_5},
    Experiment{"table-6", "comparison with previous work", "section 5.6",
               "needs the GPU index; its row of an unmodified memcached is a peer of `tandem bench compare`"},
};

}  // namespace

const Paper& memcached_gpu() {
  static const Paper paper = {"memcachedgpu", "MemcachedGPU, SoCC 2015",
                              "Core i7-4770K, 16 GB; Tesla K20c, GTX Titan or GTX 750Ti; 10 GbE",
                              memcached_gpu_experiments};
  return paper;
}

}  // namespace tandem::bench
