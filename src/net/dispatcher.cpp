#include "net/dispatcher.hpp"

#include <chrono>
#include <utility>
#include <vector>

#include "codec/udp.hpp"

namespace tandem::net {
void Dispatcher::empty_input() {
  run_all();
  batches_.input().reuse();
}

bool Dispatcher::wait_for_frames(UdpPort& port, unsigned number, std::uint16_t request_id) {
  const std::size_t bytes = port.datagram(number).bytes;
  if (!frames_.takes_datagrams() || !lane_.is_open() || !worker_.server.protocol.takes_text() ||
      bytes > frame_line_bytes_max)
    return false;
  make_room(bytes);
  frames_.wait(port, number, request_id);
  return true;
}

// Submits the batch if devices begin with its plan. If its last connection has more input (continues), that waits until
// the batch is answered. False: it stays here.
bool Dispatcher::hand_over_batch(bool continues) {
  Intake& in = batches_.in();
  if (in.stays_here || in.has_unparsed()) return false;
  const Plan& plan = worker_.planner.plan_for(in.batch->size());
  in.batch->plan = plan_cpu;
  if (!worker_.runner->can_begin(plan)) return false;
  if (!free_flight()) return false;
  worker_.meter.parsed(in.batch->size());
  if (continues && in.entries.back().rest != in.entries.back().input_end) {
    in.entries.back().stop = Stop::yield;
    worker_.counters.conn_yields.add();
  }
  batches_.hand_over([&] { worker_.runner->submit(plan); });
  return true;
}

// The same for input that a device answers from its bytes.
bool Dispatcher::hand_over_frames() {
  Intake& in = batches_.in();
  if (!in.has_unparsed() || !in.entries.empty() || in.batch->size() != 0) return false;
  const Plan& plan = frames_.plan_of_waiting();
  if (!begins_with_input(plan) || !worker_.runner->can_begin(plan)) return false;
  if (!free_flight()) return false;
  FrameColumns* const columns = worker_.runner->frames_to_fill(plan);
  if (columns == nullptr || !frames_.fill(*columns)) return false;
  batches_.hand_over([&] { worker_.runner->submit_frames(plan, worker_.server.protocol.cas); });
  return true;
}

// Leaves a free flight to be filled after the next one is handed over. False: the device is late. The worker does not
// wait longer for it, because all its connections would wait.
bool Dispatcher::free_flight() {
  constexpr std::chrono::microseconds patience(1000);
  Runner& runner = *worker_.runner;
  while (runner.in_flight() + 1 == runner.count()) {
    if (!runner.wait_for_oldest(patience)) return false;
    answer_oldest();
  }
  return true;
}

void Dispatcher::answer_oldest() {
  keep_time();
  batches_.begin_answer();
  if (batches_.in().has_unparsed()) {
    answer_frames();
  } else {
    batches_.answer();
  }
  batches_.end_answer();
}

// Answers the intake for which a device has, or should have, made replies.
void Dispatcher::answer_frames() {
  frames_.take_replies();
  lane_.run();
  answer_datagrams();
  batches_.run(false);
  responder_.flush();
  frames_.end_answer();
}

// Sends the device's replies to datagrams, and parses those that it has not answered.
void Dispatcher::answer_datagrams() {
  const std::vector<FrameDatagram> datagrams = std::exchange(batches_.in().datagrams, {});
  for (const FrameDatagram& datagram : datagrams) {
    if (const std::string_view reply = frames_.reply(datagram); !reply.empty()) {
      responder_.add_message(datagram.reply, reply);
      continue;
    }
    parser_.take_datagram(datagram.reply, {datagram.begin + udp_frame_bytes, datagram.end},
                          [this] { batches_.run(false); });
  }
}

}  // namespace tandem::net
