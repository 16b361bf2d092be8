// Hit ratios of full stores: the same look-aside traffic (get; on a miss, set) against servers with the same memory
// limit.
//
//   hit_ratio --server 'build/bin/tandem memcached' --server memcached [--memory-mib 64] [--value-bytes 100]
//             [--keys 4000000] [--requests 8000000] [--only NAME]
//
// Requests are gets of 100 keys. Hits are counted over the second half of the requests. memcached's -m limits items
// only, Tandem's items and index: at the same -m Tandem uses less of the machine's memory.
//
//   zipf0.7, zipf0.99, zipf1.2  fixed popularity
//   scan                        zipf 0.99, every fourth request a new key that is not requested again soon
//   burst                       zipf 0.99; one fifth of the time only such keys, 100,000 in a row
//   shift                       zipf 0.99; its popular keys change all the time (rank 0 every 20 requests)
//   jump                        zipf 0.99; its keys are replaced after each million requests
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <numeric>
#include <span>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "bench/micro/server_process.hpp"
#include "bench/workload/zipf.hpp"

namespace tandem::bench {
namespace {

using workload::Random;
using workload::Zipf;

struct Options {
  std::vector<std::vector<std::string>> servers;
  std::uint32_t memory_mib = 64, value_bytes = 100, keys = 4'000'000;
  std::uint64_t requests = 8'000'000;
  std::string only;
};

// Draws the key of request i.
using Draw = std::function<std::uint32_t(std::uint64_t i, Random& random)>;
struct Traffic {
  std::string_view name;
  Draw draw;
};

// Half of the keys are popular by rank, the other half is for scans.
std::vector<Traffic> all_traffic(std::uint32_t keys) {
  const std::uint32_t ranked = keys / 2;
  auto key_of_rank = std::make_shared<std::vector<std::uint32_t>>(ranked);
  std::iota(key_of_rank->begin(), key_of_rank->end(), 0U);
  Random random(7);
  for (std::uint32_t i = ranked; i > 1; --i) std::swap((*key_of_rank)[i - 1], (*key_of_rank)[random.below(i)]);

  const auto zipf = [&](double theta) -> Draw {
    return [skewed = std::make_shared<Zipf>(ranked, theta), key_of_rank](std::uint64_t, Random& r) {
      return (*key_of_rank)[skewed->draw(r)];
    };
  };
  const auto sampler = std::make_shared<Zipf>(ranked, 0.99);
  const auto popular = [sampler, key_of_rank, ranked](std::uint64_t offset, Random& r) {
    return (*key_of_rank)[(sampler->draw(r) + offset) % ranked];
  };
  const auto scanned = [ranked, keys](std::uint64_t i) {
    return ranked + static_cast<std::uint32_t>(i % (keys - ranked));
  };
  return {
      {"zipf0.7", zipf(0.7)},
      {"zipf0.99", zipf(0.99)},
      {"zipf1.2", zipf(1.2)},
      {"scan", [=](std::uint64_t i, Random& r) { return i % 4 == 3 ? scanned(i / 4) : popular(0, r); }},
      {"burst", [=](std::uint64_t i, Random& r) { return i / 100'000 % 5 == 4 ? scanned(i) : popular(0, r); }},
      {"shift", [=](std::uint64_t i, Random& r) { return popular(i / 20, r); }},
      {"jump", [=](std::uint64_t i, Random& r) { return popular(i / 1'000'000 * (ranked / 10), r); }},
  };
}

struct Outcome {
  double hit_ratio;
  std::uint64_t items;
};

class Client {
 public:
  Client(const ServerProcess& server, const Options& options) : server_(server), value_(options.value_bytes, 'v') {}

  // Gets the keys, stores the absent ones. Returns the number of hits.
  std::uint64_t ask(std::span<const std::uint32_t> keys) {
    request_ = "get";
    for (const std::uint32_t key : keys) append_key(request_ += ' ', key);
    request_ += "\r\n";
    server_.send_all(request_);
    reply_.clear();
    do {
      server_.receive(reply_);
    } while (!reply_.ends_with("END\r\n"));  // no value contains a line end

    // Replies come in the order of the keys; each names its key.
    request_.clear();
    std::uint64_t hits = 0;
    std::size_t at = 0;
    const std::size_t reply_bytes = header_bytes() + value_.size() + 2;
    for (const std::uint32_t key : keys) {
      key_.clear();
      append_key(key_, key);
      if (reply_.compare(at, 6, "VALUE ") == 0 && reply_.compare(at + 6, key_.size(), key_) == 0) {
        ++hits;
        at += reply_bytes;
        continue;
      }
      request_ += "set ";
      request_ += key_;
      request_ += tail_;
    }
    if (reply_.size() != at + 5) throw std::runtime_error("a reply that was not asked for");
    if (!request_.empty()) server_.send_all(request_);
    return hits;
  }

 private:
  static void append_key(std::string& to, std::uint32_t key) {
    char digits[16];
    std::snprintf(digits, sizeof digits, "key%08x", key);
    to += digits;
  }
  std::size_t header_bytes() const { return 6 + 11 + 3 + std::to_string(value_.size()).size() + 2; }

  const ServerProcess& server_;
  const std::string value_;
  const std::string tail_ = " 0 0 " + std::to_string(value_.size()) + " noreply\r\n" + value_ + "\r\n";
  std::string request_, reply_, key_;
};

Outcome measure(std::vector<std::string> command, const Traffic& traffic, const Options& options) {
  constexpr std::uint32_t keys_per_get = 100;
  command.insert(command.end(), {"-m", std::to_string(options.memory_mib)});
  const ServerProcess server(command);
  Client client(server, options);
  Random random(42);
  std::uint64_t hits = 0;
  std::uint64_t counted = 0;
  std::vector<std::uint32_t> keys(keys_per_get);
  for (std::uint64_t i = 0; i < options.requests; i += keys_per_get) {
    for (std::uint32_t k = 0; k < keys_per_get; ++k) keys[k] = traffic.draw(i + k, random);
    // A key drawn twice in one request would be missed twice: its second occurrence counts as a hit, for every server.
    std::sort(keys.begin(), keys.end());
    keys.erase(std::unique(keys.begin(), keys.end()), keys.end());
    const std::uint64_t found = client.ask(keys) + (keys_per_get - keys.size());
    if (i >= options.requests / 2) {
      hits += found;
      counted += keys_per_get;
    }
    keys.resize(keys_per_get);
  }
  return {static_cast<double>(hits) / static_cast<double>(counted), server.stat("curr_items")};
}

std::vector<std::string> words_of(const std::string& text) {
  std::istringstream in(text);
  std::vector<std::string> words;
  for (std::string word; in >> word;) words.push_back(word);
  return words;
}

int run(std::span<char*> arguments) {
  Options options;
  for (std::size_t i = 1; i + 1 < arguments.size(); i += 2) {
    const std::string_view name = arguments[i];
    const std::string value = arguments[i + 1];
    const auto number = [&value] { return std::strtoul(value.c_str(), nullptr, 10); };
    if (name == "--server") {
      options.servers.push_back(words_of(value));
    } else if (name == "--memory-mib") {
      options.memory_mib = static_cast<std::uint32_t>(number());
    } else if (name == "--value-bytes") {
      options.value_bytes = static_cast<std::uint32_t>(number());
    } else if (name == "--keys") {
      options.keys = static_cast<std::uint32_t>(number());
    } else if (name == "--requests") {
      options.requests = number();
    } else if (name == "--only") {
      options.only = value;
    } else {
      options.servers.clear();
      break;
    }
  }
  if (options.servers.empty() || arguments.size() % 2 == 0 || options.keys < 20) {
    std::fprintf(stderr,
                 "usage: %s --server 'PROGRAM OPTIONS'... [--memory-mib N] [--value-bytes N] [--keys N] "
                 "[--requests N] [--only NAME]\n",
                 arguments[0]);
    return 2;
  }
  std::printf("hit ratio and items at the end; -m %u, values of %u bytes, %u keys, %lu requests\n", options.memory_mib,
              options.value_bytes, options.keys, options.requests);
  for (std::size_t s = 0; s < options.servers.size(); ++s) {
    std::printf("server %zu:", s);
    for (const std::string& word : options.servers[s]) std::printf(" %s", word.c_str());
    std::printf("\n");
  }
  for (const Traffic& traffic : all_traffic(options.keys)) {
    if (!options.only.empty() && traffic.name != options.only) continue;
    std::printf("%-9s", std::string(traffic.name).c_str());
    for (const std::vector<std::string>& server : options.servers) {
      const Outcome outcome = measure(server, traffic, options);
      std::printf(" %8.4f %8lu", outcome.hit_ratio, outcome.items);
      std::fflush(stdout);
    }
    std::printf("\n");
  }
  return 0;
}

}  // namespace
}  // namespace tandem::bench

int main(int argc, char** argv) {
  try {
    return tandem::bench::run({argv, static_cast<std::size_t>(argc)});
  } catch (const std::exception& e) {
    std::fprintf(stderr, "hit_ratio: %s\n", e.what());
    return 1;
  }
}
