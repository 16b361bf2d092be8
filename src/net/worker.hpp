// A worker: one thread with an epoll loop that owns connections and runs the CPU pipeline over their requests.
//
// A pass: epoll_wait; every ready connection is received from once (RV) and parsed (PP) into one batch, whose queries
// point into the batch's input; the executor runs the batch strip by strip, which has write() append the replies
// (WR) to one output; then one send per connection (SD), from that output. Nothing else enters the kernel: descriptors
// are registered once, and a worker without work sleeps outside any epoch. docs/threads.md says what other threads may
// touch.
//
// With a device, a batch that the planner gives it is handed over when it is filled, and its replies are written in a
// later pass. The worker goes on with other connections meanwhile: one that has queries in flight is neither received
// from nor parsed, so that its answers come in order.
//
// A connection whose socket is full becomes blocked: what it did not take is copied into its own buffer, its later
// queries of the batch are not executed, the input from them on is kept, and it is neither received from nor parsed
// until it has drained.
#pragma once
#include <sys/epoll.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "codec/protocol.hpp"
#include "codec/reply_writer.hpp"
#include "lane/lane.hpp"
#include "net/connection.hpp"
#include "net/counters.hpp"
#include "net/recorder.hpp"
#include "net/state.hpp"
#include "net/udp_port.hpp"
#include "observe/hot_keys.hpp"
#include "observe/latency.hpp"
#include "pipeline/runner.hpp"
#include "planner/planner.hpp"

namespace tandem::net {

class Worker final : private ResponseWriter {
 public:
  // udp: this worker's own UDP sockets. Throws std::system_error, std::runtime_error (no context left).
  Worker(State& state, ServerControl& control, std::vector<Fd> udp);
  ~Worker() override;

  // Any thread. Takes over a connected, non-blocking socket, already counted in State::connections; `tls`: that speaks
  // TLS.
  void adopt(Fd socket, bool tls = false, const PeerAddress& client = {});
  std::uint32_t connection_count() const noexcept { return connection_count_.load(std::memory_order_relaxed); }

  // The worker's thread: until State::stopping is set and wake() was called; closes all connections at the end.
  void run();
  // One pass, waiting at most timeout_ms for something to do (-1: for ever). For run(), tests and fuzzing.
  void pass(int timeout_ms);
  void wake() const noexcept { wakeup_.notify(); }

  // Buffers of input: one for each batch, and of each connection that has sent a part of a request. Of output: of each
  // connection that has not taken its replies yet.
  struct Buffers {
    std::uint64_t inputs, input_bytes, outputs;
  };
  Buffers buffers() const noexcept;

  // Any thread.
  const NetCounters& counters() const noexcept { return counters_; }
  const Context& context() const noexcept { return *context_; }
  const LatencyCounters& latency() const noexcept { return latency_; }
  HotKeyCounter* hot_keys() const noexcept { return hot_keys_.get(); }  // nullptr: turned off
  // Calls f for every open connection, under the lock that adopting and closing take.
  void for_each_connection(const std::function<void(const Connection&)>& f) const;
  const std::vector<UdpPort>& udp_ports() const noexcept { return udp_; }

 private:
  // Why parsing a connection's input stopped.
  enum class Stop : std::uint8_t { need_more, yield, large, close, quit };

  // A connection's (or a datagram's) part of the batch.
  struct Entry {
    Connection* connection;  // nullptr: a datagram
    const char* rest;        // input not parsed yet ...
    const char* input_end;   // ... up to here
    // Its replies in output_, when there are any (`open`).
    std::size_t output_begin, output_end, externals_begin, externals_end;
    std::uint32_t first_query;
    Stop stop;
    bool open;
    bool skips;       // queries from some place on are not executed; `rest` is where they begin
    bool turn_ended;  // that is because others' turn has come
    UdpReply reply;
    std::uint64_t received_at = 0, sent_at = 0;     // ticks, in a sampled pass; 0: not known
    std::uint64_t controls = 0;                     // executed in this pass
    std::uint64_t messages = 0, message_bytes = 0;  // replies to a datagram
    std::size_t ahead_begin = 0, ahead_bytes = 0;   // in ahead_: the lane's replies, not written yet
  };
  // Beside a segment of the lane: whose it is.
  struct LaneWait {
    Connection* connection;
    std::uint64_t waits_since;  // ticks; 0: not known
    std::uint64_t sent_at = 0;
    std::size_t ahead_begin = 0, ahead_bytes = 0;
    std::array<std::uint32_t, lane_command_count> commands{};
  };
  // A batch and what belongs to it from RV to SD: whose it is.
  struct Intake {
    Batch* batch = nullptr;
    std::vector<Entry> entries;
    std::uint64_t begin = 0;                    // ticks
    std::uint64_t since = 0;                    // begin of the pass that it was taken in in
    std::uint64_t oldest_receipt = UINT64_MAX;  // of input that had to wait for its turn
    bool sampled = false;                       // its commands' latencies are recorded
  };
  // One command's reply to a datagram.
  struct Message {
    UdpReply to;
    std::size_t output_begin, output_end, externals_begin, externals_end;
  };

  // Edge-triggered: the kernel does not look again at each connection that was served (4 % of a request's cost when one
  // is in flight). In exchange the worker remembers which sockets may hold more (Connection::readable).
  static constexpr std::uint32_t watch_input = EPOLLIN | EPOLLRDHUP | EPOLLET, watch_output = EPOLLOUT | EPOLLET;

  // worker.cpp: the loop, and the life of connections
  void begin_pass() noexcept;
  bool pass_udp();
  int patience_ms(int timeout_ms) const noexcept;
  void handle(const epoll_event& event);
  void end_pass() noexcept;
  void free_closed() noexcept;
  void save_memory() noexcept;
  bool stands_still(const Connection& c) const noexcept;
  Connection* longest_still_filling(std::uint64_t bytes) noexcept;
  void close_later(Connection& c, CloseReason reason = CloseReason::error) noexcept;
  void check_timeouts(std::uint32_t now_s);
  void close_idle(std::uint32_t now_s);
  void watch(Connection& c, std::uint32_t events) noexcept;
  void go_on_next_pass(Connection& c);

  // worker_observe.cpp
  void begin_sample() noexcept;
  void end_sample() noexcept;
  void went_on(Entry& entry, std::uint64_t waits_since) noexcept;
  void record_batch(std::uint64_t now) noexcept;
  void record_keys() noexcept;

  // worker_receive.cpp: RV and PP
  void serve(Connection& c);
  unsigned serve_udp(UdpPort& port);
  std::string_view bring_datagram(std::string_view request);
  ParseStop parse_datagram(Entry& entry);
  void serve_long_datagram(Entry entry);
  void serve_long(Connection& c);
  bool keep(Connection& c, const char* begin, const char* end) noexcept;
  bool charge_kept(Connection& c) noexcept;
  void refuse_kept(Connection& c) noexcept;
  void count_kept(Connection& c, std::size_t capacity) noexcept;
  void make_room(std::size_t bytes);
  std::size_t receive(Connection& c, char* to) noexcept;
  std::size_t receive_value(Connection& c, char* to) noexcept;
  bool received(Connection& c, std::ptrdiff_t bytes) noexcept;
  void add_entry(Connection* c, const char* begin, const char* end);
  void parse(Connection& c);
  task::Parsed parse_entry(const Entry& entry, Parser& parser);
  bool take_filling(std::uint64_t bytes) noexcept;
  bool begin_large(Connection& c);
  bool finish_fill(Connection& c);
  void run_batch(bool goes_on, bool here = false);
  void execute(bool goes_on);
  void finish(Entry& entry);
  void note_input(Connection& c) noexcept;
  void log_requests(const Entry& entry) const;

  // worker_lane.cpp: plain reads, ahead of the parser
  bool has_lane() const noexcept;
  bool wait_for_lane(Connection& c, const char* begin, const char* end, std::uint64_t waits_since);
  void run_lane();
  void end_lane(LaneSegment& segment, LaneWait& wait, bool done);
  void go_on_after_lane(const LaneSegment& segment, const LaneWait& wait);
  void send_ahead(Entry& entry);
  void write_ahead(Entry& entry);
  void record_lane() noexcept;

  // worker_device.cpp: batches that a device searches
  std::unique_ptr<Runner> make_runner();
  bool hand_over(bool goes_on);
  void begin_intake();
  bool has_answers() const noexcept;
  void answer_oldest();
  void mark_in_flight(bool is_in_flight) noexcept;

  // worker_tls.cpp: both of them with TLS
  bool shake_hands(Connection& c) noexcept;
  std::ptrdiff_t read_tls(Connection& c, char* to, std::size_t bytes) noexcept;
  std::size_t receive_tls(Connection& c, char* to) noexcept;
  std::size_t receive_value_tls(Connection& c, char* to) noexcept;
  void close_tls(Connection& c) noexcept;
  void close_unfinished_handshakes(std::uint32_t now_s);
  // worker_stream.cpp
  void begin_stream(Connection& c, const StreamRequest& request, Output& text);
  void tell_watchers_the_last();
  void serve_stream(Connection& c);
  void send_streams();
  void end_stream(Connection& c);
  void drop_stream(Connection& c) noexcept;

  // worker_respond.cpp: WR and SD
  bool write(Batch& batch, Strip strip) override;
  void control(Batch& batch, std::uint32_t i) override;
  StreamRequest execute(Connection* c, const Query& query);
  void write_run(Batch& batch, std::uint32_t begin, std::uint32_t end);
  void write_run_with_pins(Batch& batch, std::uint32_t begin, std::uint32_t end);
  void write_datagram(Batch& batch, std::uint32_t begin, std::uint32_t end);
  void open_output(Entry& entry);
  void mark_output(Entry& entry) noexcept;
  OutputRange range_of(const Entry& entry) const noexcept {
    return {&output_, entry.output_begin, entry.output_end, entry.externals_begin, entry.externals_end};
  }
  void open_message(Entry& entry);
  bool end_message(Entry& entry);
  bool had_messages(const Entry& entry) const noexcept;
  void flush_if_large(Batch& batch, std::uint32_t next);
  void skip_if_stuck(Batch& batch, std::uint32_t i);
  void skip_from(Batch& batch, std::uint32_t i);
  bool turn_is_over(std::uint32_t entry) noexcept;
  bool datagram_is_over(const Entry& entry, std::uint32_t next) noexcept;
  void drop_message(Entry& entry) noexcept;
  void note_turn(Entry& entry) noexcept;
  void flush();
  void send_messages();
  void send(Connection& c, OutputRange range);
  bool hold(Connection& c, const OutputRange& range);
  bool charge(const Connection& c, MemoryBudget& budget, std::uint64_t bytes);
  bool drain(Connection& c);
  void drop_unsent(Connection& c) noexcept;
  void drop_pins(const OutputRange& range) noexcept;

  State& state_;
  ServerControl& control_;
  Planner planner_;
  Engine::ContextPtr context_;
  std::unique_ptr<Runner> runner_;     // every batch but a long one is of one of its flights
  std::unique_ptr<Batch> long_batch_;  // for datagrams with more commands or keys; made when the first one comes
  Intake in_;                          // being filled, or answered
  std::vector<Intake> in_flight_;      // by the number of the flight
  unsigned idle_looks_ = 0;            // passes that found neither input nor answers while there are some to come
  Lane lane_;
  bool pass_has_lane_ = false;
  std::vector<LaneSegment> lane_segments_;  // of this pass; whose they are:
  std::vector<LaneWait> lane_waits_;
  std::vector<std::string_view> lane_keys_;  // of a sampled pass
  Output ahead_;  // the lane's replies to connections that have others to come in the same pass
  Output output_;
  const codec::ReplyContext reply_context_;
  std::size_t flushed_ = 0, written_ = 0;  // entries sent, and entries with replies in output_
  std::vector<Message> messages_;          // replies to datagrams that wait in output_
  bool sent_ = false;                      // output was sent since the last write() began
  bool message_open_ = false;              // the last written command of a datagram is not answered whole
  bool in_pass_ = false;                   // that has begun
  bool sampled_ = false;                   // this pass's RV, PP and SD are timed
  Sampler sampler_{static_cast<std::uint32_t>(cycles_now() >> 4)};  // of passes
  const std::uint64_t slow_ticks_, turn_ticks_, long_pass_ticks_;
  // Whose turn it is, since when, and the context's waited_ticks then.
  std::uint32_t turn_entry_ = UINT32_MAX;
  std::uint64_t turn_begin_ = 0, turn_waited_ = 0;         // ticks
  std::uint64_t datagrams_begin_ns_ = 0;                   // of processor time; 0: not looked at yet
  std::uint64_t pass_begin_ = 0;                           // ticks
  std::array<std::uint64_t, task_count> cycles_before_{};  // of a sampled pass
  LatencyCounters latency_;
  std::unique_ptr<HotKeyCounter> hot_keys_;
  std::uint64_t pass_parsed_ = 0, pass_answered_ = 0;  // queries
  std::uint64_t parsed_before_ = 0;                    // a sampled pass: queries of PP
  std::uint64_t pass_ = 0;
  std::uint32_t stood_still_s_ = 0;             // the second in which connections with half values were looked at ...
  std::uint64_t stood_still_bytes_ = 0;         // ... and what those hold that stood still
  std::uint32_t none_still_before_s_ = 0;       // nobody counts as standing still until then
  std::vector<Connection*> waiting_, serving_;  // input to go on with: of the next pass, of this one
  std::vector<Connection*> blocked_;
  std::vector<Connection*> closed_;       // freed when the pass ends: events and entries may still name them
  std::vector<Connection*> handshaking_;  // that have sent something, in order
  unsigned handshake_steps_left_ = 0;     // in this pass
  const bool has_timeouts_;
  std::uint32_t timeouts_checked_s_ = 0;
  std::vector<Connection*> streams_;
  std::size_t next_stream_ = 0;  // whose turn it is
  bool streams_due_ = false;     // one of them has something to send
  bool udp_waits_ = false;       // a UDP socket may hold more
  // A worker that serves nothing but one UDP socket often finds more in it after a pass: then asking epoll first is a
  // system call too many.
  UdpPort* udp_alone_ = nullptr;  // all that the last pass served
  unsigned udp_luck_ = 0;         // of receiving without asking
  unsigned udp_passes_ = 0;       // since epoll was asked
  std::uint64_t udp_since_ = 0;   // ticks
  std::vector<UdpPort> udp_;
  NetCounters counters_;
  Counter kept_inputs_, kept_bytes_, kept_outputs_;  // Buffers; they fall, too
  Recorder recorder_;

  Fd epoll_;
  EventFd wakeup_;
  std::atomic<std::uint32_t> connection_count_{0};
  std::atomic<std::uint32_t> unfinished_handshakes_{0};
  mutable std::mutex connections_mutex_;
  Connection* connections_ = nullptr;  // guarded by connections_mutex_
};

}  // namespace tandem::net
