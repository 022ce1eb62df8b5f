#pragma once

#include <cstddef>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "environment/board.h"
#include "http/server.h"

namespace planish::environment {

struct ServiceOptions {
  std::map<std::string, std::filesystem::path> tasks;  ///< by name
  bool task_sources = false;                           ///< tasks may be sent: their code runs with this user's rights
  std::filesystem::path folder;                        ///< where sent tasks are written
  std::string token;                                   ///< empty: nobody is asked for one
  bool loopback = true;                                ///< it listens on this machine alone, under its own names
  std::size_t most_bytes = 1U << 20U;                  ///< of a body
  double most_wait = 3600;                             ///< seconds that a request is kept waiting for its grade
};

/// What the endpoint answers (docs/environment.md): requests in, submissions on the board, grades out. Thread-safe.
class Service {
 public:
  /// The board must outlive every request.
  Service(ServiceOptions options, Board& board) : options_(std::move(options)), board_(board) {}

  /// Refuses before a body is read: from a web page, without the token, too long, of no known length or kind.
  std::optional<http::Response> gate(const http::Head& head) const;
  void handle(http::Request request, const std::shared_ptr<http::Reply>& reply);

 private:
  http::Response task(const std::string& name_of_it) const;
  void grade(const std::string& body, const std::shared_ptr<http::Reply>& reply);
  Result<Submission> submission_in(const std::string& body, double& wait) const;
  /// Answers when it is done or the wait is over.
  void answer_later(const std::string& id, double wait, const std::shared_ptr<http::Reply>& reply);

  ServiceOptions options_;
  Board& board_;
};

}  // namespace planish::environment
