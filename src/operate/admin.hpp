// What the commands of docs/administration.md change in a running server.
//
// Thread safety: any thread.
#pragma once
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "codec/admin.hpp"
#include "worker/state.hpp"

namespace tandem::net {

class Admin final : public Administration {
 public:
#ifdef TANDEM_DEBUG_COMMANDS
  explicit Admin(State& state);
  ~Admin() override;
#else
  explicit Admin(State& state) : state_(state) {}
#endif
  Admin(const Admin&) = delete;
  Admin& operator=(const Admin&) = delete;

  std::string_view reassign(int from, int to) override;
  bool reassigns() const override { return state_.engine.options().reassign; }
  void set_automove(unsigned level) override;
  bool set_memory_limit(std::uint64_t bytes) override;
  void set_detail(bool on) override;
  std::string detail() override;
  bool tracks_sizes() const override;
  void set_track_sizes(bool on) override;
  bool crawls() const override;
  bool set_crawls(bool on) override;
  std::string_view crawl(const StreamRequest::Classes& classes) override;
  void set_crawl_sleep_us(std::uint32_t sleep_us) override;
  void set_crawl_items(std::uint32_t items) override;
  void shut_down(bool graceful) override;
#ifdef TANDEM_DEBUG_COMMANDS
  void debug_time(DebugTime how, std::int64_t seconds) override;
  bool debug_item(DebugItem how, std::string_view key, std::uint32_t count) override;
#endif

 private:
  State& state_;
#ifdef TANDEM_DEBUG_COMMANDS
  struct Debug;
  std::unique_ptr<Debug> debug_;  // made by the first debugitem
  std::mutex debug_mutex_;        // guards debug_ and what it holds
#endif
};

}  // namespace tandem::net
