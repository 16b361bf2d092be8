// A load generator for memcached servers that costs little, checks what it gets and counts what the server spends.
//
//   load --port 11211 --preload --server-pid $(pidof memcached) --connections 1 --pipeline 16 --get-ratio 0.95
//
// Prints one JSON object. Exit status: 0, 1 after a wrong, missing or (with --require-hits) empty reply, 2 when it
// could not run at all.

#include <unistd.h>

#include <cstdio>
#include <exception>
#include <map>
#include <string>

#include <CLI/CLI.hpp>

#include "recorder.hpp"
#include "sockets.hpp"
#include "tcp_load.hpp"
#include "udp_load.hpp"
#include "wire.hpp"
#include "workload.hpp"

namespace tandem::bench {
namespace {

struct Options {
  RunOptions run;
  WorkloadOptions workload;
  WireOptions wire;
  bool udp = false;
  bool preload = false;
  bool require_hits = false;
  int server_pid = 0;
};

void add_options(CLI::App& app, Options& options) {
  app.option_defaults()->take_last();
  app.add_option("--host", options.run.host, "IPv4 address")->capture_default_str();
  app.add_option("-p,--port", options.run.port, "TCP or UDP port")->capture_default_str();
  app.add_flag("--udp", options.udp, "UDP, with sendmmsg and recvmmsg");
  app.add_option("-c,--connections", options.run.connections, "connections or UDP sockets")
      ->check(CLI::Range(1, 60000))
      ->capture_default_str();
  app.add_option("--pipeline", options.wire.pipeline, "requests in flight per connection")
      ->check(CLI::Range(1, 100000))
      ->capture_default_str();
  app.add_option("--multiget", options.wire.multiget, "keys per get")
      ->check(CLI::Range(1, 10000))
      ->capture_default_str();
  app.add_option("--protocol", options.wire.protocol, "text or meta")
      ->transform(
          CLI::CheckedTransformer(std::map<std::string, Protocol>{{"text", Protocol::text}, {"meta", Protocol::meta}}));
  app.add_option("--get-ratio", options.workload.get_ratio, "share of gets among operations; the rest are sets")
      ->check(CLI::Range(0.0, 1.0))
      ->capture_default_str();
  app.add_option("--keys", options.workload.key_count, "number of keys")->capture_default_str();
  app.add_option("--key-size", options.workload.key_bytes, "bytes, 8 to 250")->capture_default_str();
  app.add_option("--value-size", options.workload.value_bytes, "bytes")->capture_default_str();
  app.add_option("--distribution", options.workload.distribution, "uniform, zipf or sequential")
      ->transform(CLI::CheckedTransformer(std::map<std::string, Distribution>{
          {"uniform", Distribution::uniform}, {"zipf", Distribution::zipf}, {"sequential", Distribution::sequential}}));
  app.add_option("--theta", options.workload.theta, "exponent of zipf")->capture_default_str();
  app.add_option("--seed", options.workload.seed, "of the key sequence")->capture_default_str();
  app.add_flag("--preload", options.preload, "first set every key once, over TCP");
  app.add_option("--seconds", options.run.seconds, "length of the measurement; 0: none")->capture_default_str();
  app.add_option("--ops", options.run.op_limit, "measure so many operations instead, without warm-up");
  app.add_option("--warmup", options.run.warmup_s, "seconds of load before it")->capture_default_str();
  app.add_option("--timeout", options.run.timeout_s, "seconds without any reply that end the run")
      ->capture_default_str();
  app.add_option("--rate", options.run.rate_per_s,
                 "open loop: operations per second, at fixed times; latency counts from those");
  app.add_flag("--spin", options.run.spin, "do not sleep: the server never pays for waking the client");
  app.add_flag("--verify", options.wire.verify, "compare every byte of every reply with what was set");
  app.add_flag("--require-hits", options.require_hits, "a miss is an error");
  app.add_option("--server-pid", options.server_pid, "process whose CPU time to measure");
}

void set_every_key(const Options& options) {
  WorkloadOptions once = options.workload;
  once.distribution = Distribution::sequential;
  once.get_ratio = 0;
  const Workload workload(once);
  Wire wire(workload, {.pipeline = 128});
  RunOptions run = options.run;
  run.connections = 1;
  run.op_limit = once.key_count;
  run.rate_per_s = 0;
  Recorder recorder(run, 0);
  TcpLoad(run, wire, recorder).run();
  if (!recorder.error().empty()) throw std::runtime_error("preload: " + recorder.error());
}

void print_latencies(const char* name, const Histogram& histogram) {
  const auto us = [](uint64_t ns) { return static_cast<double>(ns) * 1e-3; };
  std::printf(
      " \"%s\": {\"count\": %llu, \"min\": %.3f, \"mean\": %.3f, \"p50\": %.3f, \"p90\": %.3f, \"p99\": %.3f,"
      " \"p99.9\": %.3f, \"p99.99\": %.3f, \"max\": %.3f},\n",
      name, static_cast<unsigned long long>(histogram.total()), us(histogram.min()), histogram.mean() * 1e-3,
      us(histogram.quantile(0.5)), us(histogram.quantile(0.9)), us(histogram.quantile(0.99)),
      us(histogram.quantile(0.999)), us(histogram.quantile(0.9999)), us(histogram.max()));
}

void print_report(const Recorder& recorder) {
  const double ops = static_cast<double>(recorder.window_ops());
  const double per_op = ops > 0 ? 1 / ops : 0;
  const double rate = recorder.window_s() > 0 ? ops / recorder.window_s() : 0;
  std::printf("{\"ops\": %.0f, \"seconds\": %.6f, \"ops_per_s\": %.1f,\n", ops, recorder.window_s(), rate);
  std::printf(" \"server_cpu_us_per_op\": %.5f, \"server_sleeps_per_op\": %.6f, \"client_cpu_us_per_op\": %.5f,\n",
              static_cast<double>(recorder.window_server_cpu_ns()) * 1e-3 * per_op,
              static_cast<double>(recorder.window_server_sleeps()) * per_op,
              static_cast<double>(recorder.window_client_cpu_ns()) * 1e-3 * per_op);
  print_latencies("latency_us", recorder.latency());
  print_latencies("send_lag_us", recorder.lag());
  std::string error;
  for (const char c : recorder.error()) {
    if (c == '"' || c == '\\') error += '\\';
    error += c;
  }
  std::printf(
      " \"gets\": %llu, \"sets\": %llu, \"misses\": %llu, \"wrong\": %llu, \"timeouts\": %llu, \"error\": \"%s\"}\n",
      static_cast<unsigned long long>(recorder.gets()), static_cast<unsigned long long>(recorder.sets()),
      static_cast<unsigned long long>(recorder.misses()), static_cast<unsigned long long>(recorder.wrong_replies()),
      static_cast<unsigned long long>(recorder.timeouts()), error.c_str());
}

// Whether everything was answered as it should be.
bool measure(const Options& options) {
  const Workload workload(options.workload);
  WireOptions wire_options = options.wire;
  wire_options.frame_bytes = options.udp ? UdpFrame::bytes : 0;
  Wire wire(workload, wire_options);
  Recorder recorder(options.run, options.server_pid);
  if (options.udp) {
    UdpLoad(options.run, wire, recorder).run();
  } else {
    TcpLoad(options.run, wire, recorder).run();
  }
  print_report(recorder);
  return recorder.wrong_replies() == 0 && recorder.timeouts() == 0 && (!options.require_hits || recorder.misses() == 0);
}

void check_options(const Options& options) {
  if (options.wire.multiget > 1 && options.workload.get_ratio == 0)
    throw std::invalid_argument("--multiget needs a get ratio above 0");
  if (options.udp && options.run.op_limit != 0) throw std::invalid_argument("--ops needs TCP");
  if (options.server_pid != 0 && !ProcessMeter(options.server_pid).valid())
    throw std::invalid_argument("--server-pid: no such process");
}

}  // namespace
}  // namespace tandem::bench

int main(int argc, char** argv) {
  using namespace tandem::bench;
  CLI::App app("Load generator for memcached servers; prints JSON");
  Options options;
  add_options(app, options);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  try {
    check_options(options);
    raise_descriptor_limit();
    if (options.preload) set_every_key(options);
    if (options.run.seconds <= 0 && options.run.op_limit == 0) return 0;
    return measure(options) ? 0 : 1;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "load: %s\n", error.what());
    return 2;
  }
}
