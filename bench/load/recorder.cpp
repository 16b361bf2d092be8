#include "bench/load/recorder.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace tandem::load {

using workload::OpKind;

namespace {

// The key of "VA n kKEY\r\n".
std::optional<std::uint64_t> key_of_item(const workload::KeySpace& keys, std::string_view data) {
  const std::string_view line = data.substr(0, data.find("\r\n"));
  const std::size_t mark = line.find(" k");
  return mark == line.npos ? std::nullopt : keys.number_of(line.substr(mark + 2));
}

}  // namespace

Counts& Counts::operator+=(const Counts& other) noexcept {
  for (std::size_t i = 0; i < ops.size(); ++i) ops[i] += other.ops[i];
  gets += other.gets;
  hits += other.hits;
  other_keys += other.other_keys;
  sets += other.sets;
  scan_items += other.scan_items;
  scans_cut += other.scans_cut;
  scan_missing_keys += other.scan_missing_keys;
  bytes_sent += other.bytes_sent;
  bytes_received += other.bytes_received;
  return *this;
}

Counts& Counts::operator-=(const Counts& other) noexcept {
  for (std::size_t i = 0; i < ops.size(); ++i) ops[i] -= other.ops[i];
  gets -= other.gets;
  hits -= other.hits;
  other_keys -= other.other_keys;
  sets -= other.sets;
  scan_items -= other.scan_items;
  scans_cut -= other.scans_cut;
  scan_missing_keys -= other.scan_missing_keys;
  bytes_sent -= other.bytes_sent;
  bytes_received -= other.bytes_received;
  return *this;
}

void Errors::add(const Errors& other) {
  wrong_values += other.wrong_values;
  wrong_replies += other.wrong_replies;
  unexpected_misses += other.unexpected_misses;
  timeouts += other.timeouts;
  connection += other.connection;
  if (other.first_ns < first_ns) {
    first = other.first;
    first_ns = other.first_ns;
    other_bytes = other.other_bytes;
    wanted_bytes = other.wanted_bytes;
  }
}

std::string shown_bytes(std::string_view bytes, std::size_t bytes_max) {
  std::string out = "\"";
  for (const char c : bytes.substr(0, bytes_max)) {
    if (c == '\r') {
      out += "\\r";
    } else if (c == '\n') {
      out += "\\n";
    } else if (c == '"' || c == '\\') {
      out += {'\\', c};
    } else if (c >= ' ' && c <= '~') {
      out += c;
    } else {
      out += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
    }
  }
  out += '"';
  if (bytes.size() > bytes_max) out += fmt::format(" and {} bytes more", bytes.size() - bytes_max);
  return out;
}

Window Window::of(const Options& options, std::uint64_t start_ns) {
  static constexpr double intervals_wanted = 100;
  Window window;
  const bool is_timed = options.ops == 0 && options.seconds > 0;
  window.open_ns = start_ns + (is_timed ? static_cast<std::uint64_t>(options.warmup_s * 1e9) : 0);
  if (!is_timed) return window;
  window.close_ns = window.open_ns + static_cast<std::uint64_t>(options.seconds * 1e9);
  window.interval_ns =
      std::max(window.interval_ns, static_cast<std::uint64_t>(options.seconds * 1e9 / intervals_wanted));
  return window;
}

Recorder::Recorder(const Plan& plan, std::function<void(bool)> at_edge)
    : plan_(plan), at_edge_(std::move(at_edge)), at_interval_(Histogram::bucket_count) {}

void Recorder::begin(const Window& window) noexcept {
  window_ = window;
  next_edge_ns_ = window.open_ns;
}

void Recorder::reach_edge(std::uint64_t now) {
  if (closed_) return;
  if (!opened_) {
    opened_ = true;
    if (at_edge_) at_edge_(true);
    opened_ns_ = now;
    at_open_ = counts_;
    cpu_at_open_ns_ = read_clock_ns(CLOCK_THREAD_CPUTIME_ID);
    next_edge_ns_ = std::min(window_.open_ns + window_.interval_ns, window_.close_ns);
    return;
  }
  if (now >= window_.close_ns) return close(now);
  end_interval();
  skip_intervals(now);
  const std::uint64_t next = window_.open_ns + (intervals_.size() + 1) * window_.interval_ns;
  next_edge_ns_ = intervals_.size() >= intervals_max ? window_.close_ns : std::min(next, window_.close_ns);
}

void Recorder::end_interval() {
  Interval& interval = intervals_.emplace_back();
  for (std::size_t i = 0; i < Histogram::bucket_count; ++i) {
    std::uint64_t count = 0;
    for (const auto& histogram : latency_) count += histogram ? histogram->count_of(i) : 0;
    if (count == at_interval_[i]) continue;
    interval.emplace_back(static_cast<std::uint32_t>(i), count - at_interval_[i]);
    at_interval_[i] = count;
  }
}

// Adds whole intervals in which the thread did not check the clock, as empty ones.
void Recorder::skip_intervals(std::uint64_t now) {
  while (intervals_.size() < intervals_max && window_.open_ns + (intervals_.size() + 1) * window_.interval_ns <= now)
    intervals_.emplace_back();
}

void Recorder::close(std::uint64_t now) {
  if (closed_) return;
  if (!opened_) reach_edge(now);
  closed_ = true;
  cpu_at_close_ns_ = read_clock_ns(CLOCK_THREAD_CPUTIME_ID);
  at_close_ = counts_;
  closed_ns_ = now;
  // Operations counted since the last edge ended in the interval that is open now.
  if (now > window_.open_ns) skip_intervals(std::min(now, window_.close_ns) - 1);
  end_interval();
  if (at_edge_) at_edge_(false);
}

Counts Recorder::window_counts() const noexcept {
  Counts counts = at_close_;
  return counts -= at_open_;
}

void Recorder::add_latency(const Request& request, std::uint64_t now, std::uint64_t count) {
  if (request.start_ns < window_.open_ns || request.start_ns >= window_.close_ns) return;
  auto& histogram = latency_[static_cast<std::size_t>(request.op)];
  if (!histogram) histogram = std::make_unique<Histogram>();
  histogram->add(now > request.start_ns ? now - request.start_ns : 0, count);
}

void Recorder::reply(const Request& request, const ReplyCheck& checked, std::string_view data, std::uint64_t now) {
  std::uint64_t ops = request.key_count;
  std::uint64_t misses = 0;
  const std::uint32_t answered = checked.hits + checked.other_keys;
  switch (request.kind) {
    case RequestKind::get:
    case RequestKind::multiget:
      counts_.gets += request.key_count;
      counts_.hits += checked.hits;
      counts_.other_keys += checked.other_keys;
      misses = request.key_count - answered;
      if (request.op == OpKind::read_modify_write) ops = 0;  // counted once it has been written
      break;
    case RequestKind::set:
      ++counts_.sets;
      break;
    case RequestKind::touch:
      misses = request.key_count - answered;
      break;
    case RequestKind::scan:
      counts_.scan_items += checked.hits;
      counts_.scans_cut += checked.is_cut ? 1 : 0;
      misses = checked.missing_keys;
      counts_.scan_missing_keys += misses;
      break;
    case RequestKind::remove:
      break;
  }
  if (misses != 0 && plan_.options.require_hits) {
    errors_.unexpected_misses += misses;
    if (errors_.first_ns == UINT64_MAX) note(describe(&request, "a miss, though every key was set", data));
  }
  if (checked.status == ReplyStatus::wrong_value) {
    ++errors_.wrong_values;
    if (errors_.first_ns == UINT64_MAX)
      note(describe(&request, checked.what, data.substr(0, checked.bytes), checked.fault_at));
  }
  if (ops == 0) return;
  counts_.ops[static_cast<std::size_t>(request.op)] += ops;
  progress_.store(progress_.load(std::memory_order_relaxed) + ops, std::memory_order_relaxed);
  add_latency(request, now, ops);
}

void Recorder::note(std::string text) {
  if (errors_.first_ns != UINT64_MAX) return;
  errors_.first = std::move(text);
  errors_.first_ns = monotonic_ns();
}

std::string Recorder::describe(const Request* request, std::string_view what, std::string_view data,
                               std::size_t from) const {
  std::string out(what);
  if (request != nullptr) {
    // The request again, byte for byte except for a multiget's later keys.
    Request one = *request;
    std::uint64_t key = one.key;
    if (one.kind == RequestKind::multiget) one.key_count = 1;
    const Codec& codec = plan_.codec_of(one);
    std::vector<char> bytes(Codec::request_bytes_max(one));
    const char* const end = codec.write(one, &key, bytes.data());
    out += fmt::format("; asked {}", shown_bytes({bytes.data(), static_cast<std::size_t>(end - bytes.data())}));
    if (request->key_count > 1) out += fmt::format(" with {} keys more", request->key_count - 1);
  }
  if (from != 0) return out + fmt::format("; got {}, {} bytes into the reply", shown_bytes(data.substr(from)), from);
  return out + fmt::format("; got {}", data.empty() ? "nothing" : shown_bytes(data));
}

void Recorder::wrong_reply(const Request* request, std::string_view what, std::string_view data, std::size_t from) {
  ++errors_.wrong_replies;
  if (errors_.first_ns != UINT64_MAX) return;
  const auto other = request != nullptr ? other_size(*request, data.substr(from)) : std::nullopt;
  if (!other) return note(describe(request, what, data, from));
  errors_.other_bytes = other->bytes;
  errors_.wanted_bytes = other->wanted;
  note(describe(request, fmt::format("a value of {} bytes, where this run's has {}", other->bytes, other->wanted), data,
                from));
}

// Whether the reply to a get or scan is right except for the size of its (first) value.
std::optional<Recorder::OtherSize> Recorder::other_size(const Request& request, std::string_view data) const {
  const Contents& contents = plan_.codec_of(request).contents();
  const bool is_scan = request.kind == RequestKind::scan;
  const bool is_read = request.kind == RequestKind::get || request.kind == RequestKind::multiget || is_scan;
  if (!is_read || !contents.has_known_lengths()) return std::nullopt;
  const auto key = is_scan ? key_of_item(*contents.key_space(), data) : std::optional(request.key);
  if (!key) return std::nullopt;
  const auto bytes = announced_value_bytes(plan_.options.protocol, data);
  const std::uint32_t wanted = contents.value_bytes(*key);
  if (!bytes || *bytes == wanted) return std::nullopt;
  return OtherSize{*bytes, wanted};
}

void Recorder::timed_out(const Request& request, std::uint64_t now, std::string_view why) {
  errors_.timeouts += request.key_count;
  if (errors_.first_ns == UINT64_MAX) note(describe(&request, why, {}));
  add_latency(request, now, request.key_count);
}

void Recorder::never_sent(std::uint64_t ops, std::uint64_t due, std::uint64_t now) {
  static constexpr std::uint64_t steps_max = 1000;
  errors_.timeouts += ops;
  note(fmt::format("the server is slower than the rate: {} operations were never sent", ops));
  // Of which kinds they would have been is not drawn: the most frequent one stands for all.
  const auto& shares = plan_.options.workloads.front().mix.share;
  auto& histogram = latency_[static_cast<std::size_t>(std::ranges::max_element(shares) - shares.begin())];
  if (!histogram) histogram = std::make_unique<Histogram>();
  const std::uint64_t steps = std::min(ops, steps_max);
  for (std::uint64_t i = 0; i < steps; ++i) {
    const std::uint64_t due_ns = due + (window_.close_ns - due) / steps * i;
    if (due_ns >= window_.open_ns) histogram->add(now - due_ns, ops * (i + 1) / steps - ops * i / steps);
  }
}

void Recorder::connection_failed(std::string_view what) {
  ++errors_.connection;
  note(std::string(what));
}

}  // namespace tandem::load
