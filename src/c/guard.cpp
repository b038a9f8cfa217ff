// SPDX-License-Identifier: Apache-2.0
#include "c/guard.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <utility>

using namespace perfpred;

namespace {

struct ThreadState {
  std::string text;                               // of the last call that gave one
  std::string error;                              // of the last call that failed
  std::map<std::size_t, std::string> job_errors;  // of the last array call
  const char* message = "";
  const char* type = "";
};

ThreadState& thread_state() {
  thread_local ThreadState state;
  return state;
}

void write_to_stderr(const char* line) { fmt::print(stderr, "perfpred: {}\n", line); }

std::atomic<perfpred_note_callback>& note_callback() {
  static std::atomic<perfpred_note_callback> callback{write_to_stderr};
  return callback;
}

void copy_text(const std::string& text, char* buffer, std::size_t capacity, std::size_t* needed) {
  if (capacity > 0) {
    const std::size_t size = std::min(text.size(), capacity - 1);
    std::memcpy(given(buffer, "buffer"), text.data(), size);
    buffer[size] = '\0';
  }
  if (needed != nullptr) *needed = text.size() + 1;
}

}  // namespace

int perfpred::set_error(perfpred_status status, const char* type, const char* message) noexcept {
  ThreadState& state = thread_state();
  state.type = type;
  try {
    state.error = message;
    std::replace(state.error.begin(), state.error.end(), '\n', ' ');
    state.message = state.error.c_str();
  } catch (const std::bad_alloc&) {
    state.message = "out of memory";
  }
  return status;
}

void perfpred::give_text(std::string text, char* buffer, std::size_t capacity, std::size_t* needed) {
  std::string& kept = thread_state().text;
  kept = std::move(text);
  copy_text(kept, buffer, capacity, needed);
}

void perfpred::keep_job_errors(std::map<std::size_t, std::string> errors) {
  thread_state().job_errors = std::move(errors);
}

void perfpred::note(const std::vector<std::string>& lines) {
  for (const std::string& line : lines) note_callback().load()(line.c_str());
}

const char* perfpred_last_error() { return thread_state().message; }

const char* perfpred_last_error_type() { return thread_state().type; }

int perfpred_last_text(char* buffer, size_t capacity, size_t* needed) {
  return guarded([&] { copy_text(thread_state().text, buffer, capacity, needed); });
}

int perfpred_job_error(size_t index, char* buffer, size_t capacity, size_t* needed) {
  return guarded([&] {
    const auto& errors = thread_state().job_errors;
    const auto found = errors.find(index);
    give_text(found == errors.end() ? std::string() : found->second, buffer, capacity, needed);
  });
}

void perfpred_set_note_callback(perfpred_note_callback callback) {
  note_callback() = callback == nullptr ? write_to_stderr : callback;
}
