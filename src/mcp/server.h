#pragma once

// Include from .cpp files only (base/json.h).
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/cancel.h"
#include "base/json.h"
#include "mcp/schema.h"

/// A server of the Model Context Protocol over a pair of descriptors: tools and resources, progress, cancellation. It
/// knows nothing of what its tools do.
namespace planish::mcp {

/// A call while it runs: whether it is still wanted, and who hears how far it is. Copies are of the same call.
struct Call {
  CancelToken cancel;  ///< cancelled by the client, or because the client is gone
  /// Tells the client what is being done, where it asked to be told. From any thread, as long as the call lasts.
  std::function<void(std::string_view)> progress;
};

/// What a tool answers: an object for programs, and text for whoever reads it.
struct Answer {
  Json document = Json::object();
  std::string text;
};

struct Tool {
  std::string name, title, description;
  std::vector<Argument> arguments;
  bool read_only = false;  ///< it changes nothing
  /// The arguments were checked. In a thread of its own; several at once. An error is told as the tool's result, for
  /// the model to read; one of kind `cancelled` is told to nobody.
  std::function<Result<Answer>(const Json& arguments, const Call& call)> run;
};

struct Resource {
  std::string uri, name, description, mime_type;
};
struct Contents {
  std::string mime_type, text;
};

struct Resources {
  std::function<Result<std::vector<Resource>>()> list;
  std::vector<Resource> templates;  ///< with a template for a URI
  /// Nothing where there is no such resource.
  std::function<Result<std::optional<Contents>>(const std::string& uri)> read;
};

struct ServerOptions {
  std::string name, title, version, instructions;
  std::size_t most_calls = 16;          ///< at once
  std::size_t line_bytes = 16U << 20U;  ///< of a message
  double write_seconds = 30;            ///< a client that does not read for so long is gone
};

class Server {
 public:
  Server(ServerOptions options, std::vector<Tool> tools, Resources resources);
  ~Server();

  /// Answers until `in` ends, the client no longer reads, or `stop` is cancelled; then cancels what runs and waits for
  /// it. Once. Nothing else may be written to `out` meanwhile. An error of the tools is none of the server's: this
  /// never fails.
  void serve(int in, int out, const CancelToken& stop);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// The version to speak with a client that asks for `asked`: the same where it is known, else the latest.
std::string negotiate(std::string_view asked);

}  // namespace planish::mcp
