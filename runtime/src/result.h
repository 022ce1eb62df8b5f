#pragma once

#include <cstdio>
#include <exception>
#include <expected>
#include <new>
#include <string>
#include <utility>

#include "planish_rt.h"

/// The runtime's own error type: it may not depend on src/.
namespace planish::rt {

/// `kind` is one of those named at prt_error; `message` is one sentence.
struct Failure {
  std::string kind;
  std::string message;
};

template <typename T>
using Result = std::expected<T, Failure>;
using Status = std::expected<void, Failure>;

inline std::unexpected<Failure> fail(std::string kind, std::string message) {
  return std::unexpected(Failure{std::move(kind), std::move(message)});
}

/// Copies a failure over the C boundary, cutting what does not fit.
inline int report(const Failure& failure, prt_error* error) {
  if (error != nullptr) {
    std::snprintf(error->kind, sizeof error->kind, "%s", failure.kind.c_str());
    std::snprintf(error->message, sizeof error->message, "%s", failure.message.c_str());
  }
  return 1;
}

/// Runs the body of one C function: a Failure becomes *error, and no exception gets past.
template <typename Body>
int boundary(prt_error* error, Body&& body) noexcept {
  try {
    if (error != nullptr) error->kind[0] = error->message[0] = '\0';
    Status status = body();
    return status ? 0 : report(status.error(), error);
  } catch (const std::bad_alloc&) {
    if (error != nullptr) {
      std::snprintf(error->kind, sizeof error->kind, "out_of_memory");
      std::snprintf(error->message, sizeof error->message, "host memory is exhausted");
    }
  } catch (const std::exception& e) {
    if (error != nullptr) {
      std::snprintf(error->kind, sizeof error->kind, "bad_argument");
      std::snprintf(error->message, sizeof error->message, "unexpected exception: %s", e.what());
    }
  }
  return 1;
}

}  // namespace planish::rt

#define PRT_CONCAT_INNER(a, b) a##b
#define PRT_CONCAT(a, b) PRT_CONCAT_INNER(a, b)
/// `PRT_TRY(auto x, f());` declares x from a Result, or returns its failure.
#define PRT_TRY(decl, expr) PRT_TRY_INNER(PRT_CONCAT(prt_try_, __LINE__), decl, expr)
#define PRT_TRY_INNER(tmp, decl, expr)                      \
  auto tmp = (expr);                                        \
  if (!tmp) return std::unexpected(std::move(tmp).error()); \
  decl = std::move(tmp).value()
/// `PRT_CHECK(f());` returns the failure of a Status, if there is one.
#define PRT_CHECK(expr)                                                                               \
  do {                                                                                                \
    if (auto prt_status = (expr); !prt_status) return std::unexpected(std::move(prt_status).error()); \
  } while (false)
