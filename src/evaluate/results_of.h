#pragma once

#include <sys/types.h>

#include <string>

#include "base/result.h"
#include "worker/messages.h"

namespace planish {

/// Takes the results of a call from the memory of the process that made them (which is stopped) to the data set's
/// output buffers, on the host. `where` is that process's word: for each output `address:stride,stride,…`, in elements.
/// Nothing else is believed of it: shapes and dtypes are the data set's. `unsupported` where the system does not permit
/// to read another process's memory; `launch_failed` where what it says leads nowhere; `infrastructure`.
Status take_results(pid_t process, const std::string& where, const worker::DataSet& set);

}  // namespace planish
