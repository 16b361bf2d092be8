#include "net/dispatcher.hpp"

#include <chrono>
#include <cstring>

#include "codec/udp.hpp"

namespace tandem::net {

void Dispatcher::empty_input() {
  run_all();
  batches_.input().reuse();
}

// Where the device can read it.
bool Dispatcher::wait_in_input(UdpDatagram& datagram) {
  make_room(datagram.bytes);
  InputArena& input = batches_.input();
  char* const to = input.room();
  std::memcpy(to, datagram.data, datagram.bytes);
  input.take(datagram.bytes);
  return lane_.wait(datagram, to + udp_frame_bytes, to + datagram.bytes);
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
  batches_.run(false);
}

}  // namespace tandem::net
