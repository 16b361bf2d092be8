// A server's worker with memory in place of sockets: the same parsers, pipeline and reply writers, in the same order
// (net/worker.hpp), for one client that sends a batch at a time.
//
//   RV  the requests are copied from the tape into the input arena, as recv() copies them from the socket
//   PP  Parser
//   MM IN KC RD WR  the plan, with write_replies() into the output
//   SD  the output is handed over: pinned values released, the buffer free for the next replies. Whoever sent it would
//       read it from where it is.
#pragma once
#include <memory>
#include <string>
#include <string_view>

#include "bench/engine_plan.hpp"
#include "protocol/protocol.hpp"

namespace tandem::bench {

// Told which task has ended, for counters that cannot be read in the middle of the pipeline: RV, PP, WR, SD, and IN for
// all that lies between them.
class TaskProbe {
 public:
  TaskProbe() = default;
  TaskProbe(const TaskProbe&) = delete;
  TaskProbe& operator=(const TaskProbe&) = delete;
  virtual ~TaskProbe() = default;
  virtual void ended(Task task) = 0;
};

// Thread safety: one thread at a time.
class WireDriver final : private ResponseWriter {
 public:
  // Runs batches of up to `batch_queries` requests in up to `batch_bytes` bytes.
  WireDriver(Engine& engine, const EnginePlan& plan, std::uint32_t batch_queries, std::uint64_t batch_bytes);
  ~WireDriver() override = default;

  // Returns the bytes of the replies.
  std::uint64_t run(std::string_view requests);
  // Replies are also appended to `*replies`. nullptr: they are not.
  void keep_replies(std::string* replies) noexcept { replies_ = replies; }
  void set_probe(TaskProbe* probe) noexcept { probe_ = probe; }

  const Context& context() const noexcept { return *context_; }

 private:
  bool write(Batch& batch, Strip strip) override;
  void control(Batch& batch, std::uint32_t i) override;
  void run_batch();
  void hand_over();
  void write_with_pins(const Batch& batch, Strip strip);
  void end_task(Task task, std::uint64_t& begin) noexcept;

  Engine& engine_;
  Engine::ContextPtr context_;
  std::unique_ptr<PlanRunner> runner_;
  ProtocolOptions options_;
  Parser parser_;
  Batch batch_;
  Scratch scratch_;
  std::unique_ptr<char[]> arena_;
  std::uint64_t arena_bytes_;
  Output output_;
  std::uint64_t reply_bytes_ = 0;
  std::string* replies_ = nullptr;
  TaskProbe* probe_ = nullptr;
  bool sampled_ = false;
  Sampler sampler_{static_cast<std::uint32_t>(cycles_now() >> 4)};
};

}  // namespace tandem::bench
