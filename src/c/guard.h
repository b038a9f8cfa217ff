// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <perfpred/c_api.h>
#include <perfpred/error.h>

#include <cstddef>
#include <exception>
#include <map>
#include <new>
#include <string>
#include <string_view>
#include <vector>

namespace perfpred {

/// An answer rests on what nobody stated.
struct NotStated : InputError {
  using InputError::InputError;
};

/// Keeps the calling thread's message. @param type  see perfpred_last_error_type() @returns the status
int set_error(perfpred_status status, const char* type, const char* message) noexcept;

/// Runs the body of a function of the C interface; whatever it throws becomes a status and the thread's message.
template <class Body>
int guarded(const Body& body) noexcept {
  try {
    body();
    return PERFPRED_OK;
  } catch (const ModelError& error) {
    return set_error(PERFPRED_WRONG_INPUT, "ModelError", error.what());
  } catch (const NotStated& error) {
    return set_error(PERFPRED_UNSTATED, "InputError", error.what());
  } catch (const InputError& error) {
    return set_error(PERFPRED_WRONG_INPUT, "InputError", error.what());
  } catch (const std::bad_alloc&) {
    return set_error(PERFPRED_FAILED, "Error", "out of memory");
  } catch (const std::exception& error) {
    return set_error(PERFPRED_FAILED, "Error", error.what());
  } catch (...) {
    return set_error(PERFPRED_FAILED, "Error", "an exception of an unknown type");
  }
}

/// An argument that must not be NULL. @throws InputError that names it
template <class Argument>
Argument* given(Argument* argument, const char* name) {
  if (argument == nullptr) throw InputError(std::string(name) + " is NULL");
  return argument;
}

/// Gives a text to the caller, as c_api.h says. @throws InputError for a NULL buffer with a capacity
void give_text(std::string text, char* buffer, std::size_t capacity, std::size_t* needed);

/// Keeps why jobs of the calling thread's last array call have no answer, by place.
void keep_job_errors(std::map<std::size_t, std::string> errors);

/// Hands lines to the user's callback.
void note(const std::vector<std::string>& lines);

}  // namespace perfpred
