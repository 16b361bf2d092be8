// Executes the commands of docs/administration.md. Order of the checks and choice of the error line are memcached's.
#include "codec/admin.hpp"

#include <algorithm>
#include <charconv>

#include "codec/admin_command.hpp"
#include "codec/reply.hpp"
#include "query/opcode.hpp"

namespace tandem::codec {
namespace {

bool read_real(std::string_view text, double& to) noexcept {
  return std::from_chars(text.data(), text.data() + text.size(), to).ec == std::errc{};
}

class AdminCommand {
 public:
  AdminCommand(const Words& words, const ProtocolOptions& options, Administration& server, Output& out) noexcept
      : words_(words), options_(options), server_(server), out_(out) {}

  StreamRequest run() {
    switch (find_command(words_[0]).command) {
      case Command::slabs:
        return slabs();
      case Command::lru:
        return lru();
      case Command::lru_crawler:
        return lru_crawler();
      case Command::watch:
        return watch();
      case Command::cache_memlimit:
        return memory_limit();
      case Command::shutdown:
        return shut_down();
#ifdef TANDEM_DEBUG_COMMANDS
      case Command::debugtime:
        return debug_time();
      case Command::debugitem:
        return debug_item();
#endif
      default:
        return answer(line::error);
    }
  }

 private:
  StreamRequest answer(std::string_view text, bool no_reply = false) {
    if (!no_reply) out_.append(text);
    return {};
  }

  StreamRequest slabs() {
    const bool no_reply = words_.last_is("noreply");
    if (words_.count() == 4 && words_[1] == "reassign") {
      if (!server_.reassigns()) return answer(line::no_reassign, no_reply);
      std::int32_t from = 0, to = 0;
      if (!number::read_i32(words_[2], from) || !number::read_i32(words_[3], to))
        return answer(line::bad_format, no_reply);
      return answer(server_.reassign(from, to), no_reply);
    }
    if (words_.count() < 3 || words_[1] != "automove") return answer(line::error);
    if (words_[2] == "ratio") {
      double ratio = 0;
      return answer(read_real(words_[3], ratio) ? line::ok : line::error, no_reply);
    }
    std::uint32_t level = 0;
    if (!number::read_u32(words_[2], level)) return answer(line::bad_format, no_reply);
    if (level > 2) return answer(line::error, no_reply);
    server_.set_automove(level);
    return answer(line::ok, no_reply);
  }

  // Answered as by memcached, but without effect: Tandem has no LRU segments.
  StreamRequest lru() {
    if (words_.count() < 3) return answer(line::error, words_.count() == 2 && words_.last_is("noreply"));
    const bool no_reply = words_.last_is("noreply");
    if (words_[1] == "mode" && options_.lru_maintainer) {
      const bool known = words_[2] == "flat" || words_[2] == "segmented";
      return answer(known ? line::ok : line::error, no_reply);
    }
    if (words_[1] == "temp_ttl" && options_.lru_maintainer) {
      std::int32_t ttl_s = 0;
      return answer(number::read_i32(words_[2], ttl_s) ? line::ok : line::error, no_reply);
    }
    if (words_[1] != "tune" || words_.count() < 6) return answer(line::error, no_reply);
    std::uint32_t hot = 0, warm = 0;
    double hot_age = 0, warm_age = 0;
    if (!number::read_u32(words_[2], hot) || !number::read_u32(words_[3], warm) || !read_real(words_[4], hot_age) ||
        !read_real(words_[5], warm_age))
      return answer(line::error, no_reply);
    if (std::uint64_t{hot} + warm > 80) return answer(line::lru_shares_too_large, no_reply);
    if (hot_age <= 0 || warm_age <= 0) return answer(line::lru_age_too_small, no_reply);
    return answer(line::ok, no_reply);
  }

  StreamRequest lru_crawler() {
    if (words_.count() == 2 && words_[1] == "enable")
      return answer(server_.set_crawls(true) ? line::ok : line::no_crawler_start);
    if (words_.count() == 2 && words_[1] == "disable") {
      server_.set_crawls(false);
      return answer(line::ok);
    }
    if (words_.count() != 3) return answer(line::error);
    const bool dumps = words_[1] == "metadump" || words_[1] == "mgdump";
    if (dumps || words_[1] == "crawl") {
      if (!server_.crawls()) return answer(line::no_crawler);
      if (dumps && !options_.dump_enabled) return answer(line::no_metadump);
      StreamRequest request;
      if (!dumps && words_[2] == "hash") return answer(line::crawler_error);
      if (!read_classes(words_[2], request.classes)) return answer(line::bad_class);
      if (!dumps) return answer(request.classes.none() ? line::nothing_to_crawl : server_.crawl(request.classes));
      request.kind = words_[1] == "metadump" ? StreamRequest::Kind::metadump : StreamRequest::Kind::mgdump;
      return request;
    }
    const bool sleep = words_[1] == "sleep";
    if (!sleep && words_[1] != "tocrawl") return answer(line::error);
    std::uint32_t value = 0;
    if (!number::read_u32(words_[2], value)) return answer(line::bad_format);
    constexpr std::uint32_t sleep_us_max = 1000000;
    if (sleep && value > sleep_us_max) return answer(line::crawler_sleep_too_long);
    sleep ? server_.set_crawl_sleep_us(value) : server_.set_crawl_items(value);
    return answer(line::ok);
  }

  // "all", "hash" or numbers with commas between.
  static bool read_classes(std::string_view text, StreamRequest::Classes& classes) {
    if (text == "all" || text == "hash") return true;
    classes.reset();
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t end = std::min(text.find(',', at), text.size());
      std::uint32_t id = 0;
      if (end != at) {
        if (!number::read_u32(text.substr(at, end - at), id) || id < 1 || id >= classes.size()) return false;
        classes.set(id);
      }
      at = end + 1;
    }
    return true;
  }

  StreamRequest watch() {
    constexpr std::pair<std::string_view, std::uint32_t> streams[] = {
        {"rawcmds", watch_event::silent},      {"evictions", watch_event::evictions},
        {"fetchers", watch_event::fetchers},   {"mutations", watch_event::mutations},
        {"sysevents", watch_event::sysevents}, {"connevents", watch_event::connevents},
        {"deletions", watch_event::deletions}, {"proxyreqs", watch_event::silent},
        {"proxyevents", watch_event::silent},  {"proxyuser", watch_event::silent}};
    const bool no_reply = words_.last_is("noreply");
    if (!options_.watch_enabled) return answer(line::no_watch, no_reply);
    StreamRequest request;
    request.kind = StreamRequest::Kind::watch;
    if (words_.count() == 1) request.events = watch_event::fetchers;
    for (std::size_t i = 1; i < words_.count(); ++i) {
      const auto* const stream =
          std::ranges::find(streams, words_[i], &std::pair<std::string_view, std::uint32_t>::first);
      if (stream == std::end(streams)) return answer(line::error, no_reply);
      request.events |= stream->second;
    }
    return request;
  }

  StreamRequest memory_limit() {
    if (words_.count() != 2 && words_.count() != 3) return answer(line::error);
    const bool no_reply = words_.last_is("noreply");
    std::uint32_t megabytes = 0;
    if (!number::read_u32(words_[1], megabytes)) return answer(line::error, no_reply);
    if (megabytes < 8) return answer(line::memory_limit_too_small, no_reply);
    if (megabytes > 1000000000) return answer(line::memory_limit_in_bytes, no_reply);
    return answer(server_.set_memory_limit(std::uint64_t{megabytes} << 20) ? line::ok : line::memory_limit_refused,
                  no_reply);
  }

  StreamRequest shut_down() {
    if (!options_.shutdown_enabled) return answer(line::no_shutdown);
    const bool graceful = words_.count() == 2 && words_[1] == "graceful";
    if (words_.count() != 1 && !graceful) return answer(line::bad_shutdown);
    server_.shut_down(graceful);
    return {};
  }

#ifdef TANDEM_DEBUG_COMMANDS
  StreamRequest debug_time() {
    using How = Administration::DebugTime;
    if (words_[1] == "p" || words_[1] == "r") {
      server_.debug_time(words_[1] == "p" ? How::pause : How::resume, 0);
      return answer(line::ok);
    }
    std::int32_t seconds = 0;
    if (!number::read_i32(words_[1], seconds)) return answer(line::error);
    server_.debug_time(How::advance, seconds);
    return answer(line::ok);
  }

  StreamRequest debug_item() {
    using DebugItem = Administration::DebugItem;
    constexpr std::pair<std::string_view, DebugItem> commands[] = {
        {"lock", DebugItem::lock}, {"unlock", DebugItem::unlock}, {"ref", DebugItem::ref}, {"unref", DebugItem::unref}};
    const auto* const command = std::ranges::find(commands, words_[1], &std::pair<std::string_view, DebugItem>::first);
    std::uint32_t count = 1;
    if (command == std::end(commands) || words_.count() < 3 || words_[2].size() > key_bytes_max ||
        (words_.count() > 3 && !number::read_u32(words_[3], count)))
      return answer(line::error);
    return answer(server_.debug_item(command->second, words_[2], count) ? line::ok : "MISS\r\n");
  }
#endif

  const Words& words_;
  const ProtocolOptions& options_;
  Administration& server_;
  Output& out_;
};

}  // namespace

StreamRequest administer(const Words& words, const ProtocolOptions& options, Administration& server, Output& out) {
  return AdminCommand(words, options, server, out).run();
}

StreamRequest stats_cachedump(const Words& words, const ProtocolOptions& options, Output& out) {
  const auto answer = [&out](std::string_view text) {
    out.append(text);
    return StreamRequest{};
  };
  if (!options.dump_enabled) return answer(line::no_cachedump);
  if (words.count() < 4) return answer(line::bad_line);
  std::uint32_t id = 0, items_max = 0;
  if (!number::read_u32(words[2], id) || !number::read_u32(words[3], items_max)) return answer(line::bad_format);
  StreamRequest request{.kind = StreamRequest::Kind::cachedump, .classes = {}, .items_max = items_max, .events = 0};
  if (id >= request.classes.size()) return answer(line::bad_slab_id);
  request.classes.set(id);
  return request;
}

void enable_sizes(bool on, const ProtocolOptions& options, Administration& server, StatSink& sink) {
  // As memcached, which counts by CAS ids.
  if (on && !options.cas) {
    sink.stat("sizes_status", "error");
    return sink.stat("sizes_error", "cas_support_disabled");
  }
  server.set_track_sizes(on);
  sink.stat("sizes_status", on ? "enabled" : "disabled");
}

void stats_detail(const Words& words, Administration& server, Output& out) {
  if (words[2] == "on" || words[2] == "off") {
    server.set_detail(words[2] == "on");
    return out.append(line::ok);
  }
  if (words[2] != "dump") return out.append(line::bad_detail);
  out.append(server.detail());
  out.append(line::end);
}

}  // namespace tandem::codec
