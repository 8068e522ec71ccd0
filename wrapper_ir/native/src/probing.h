// The interface through which containers reach the debug printer's probes. Weak functions are
// linked only into libraries of programs that have probes.
#pragma once

#include <wir/program.h>

namespace wir::runtime {

class ProbeReport;  // the receiver of one call's probes

// Reads the environment's settings for probes, once. Called when a container is created.
[[gnu::weak]] void read_probe_environment(const ProgramInfo& program);

// Sets a level (null: the one the library was built with) and the directory for files (null:
// unchanged). Throws if there is no such level. Calls in progress are not affected.
[[gnu::weak]] void set_probes(const ProgramInfo& program, const char* level,
                              const char* directory);

// Returns null while probes are off.
[[gnu::weak]] ProbeReport* begin_probes(const ProgramInfo& program);
[[gnu::weak]] void end_probes(ProbeReport* report);
[[gnu::weak]] const ProbeSink* sink_of(const ProbeReport* report);

// The probes of one call.
class Probing {
 public:
  explicit Probing(const ProgramInfo& program)
      : report_(program.num_probes == 0 ? nullptr : begin_probes(program)) {}
  ~Probing() {
    if (report_ != nullptr) end_probes(report_);
  }
  Probing(const Probing&) = delete;
  Probing& operator=(const Probing&) = delete;

  const ProbeSink* sink() const { return report_ == nullptr ? nullptr : sink_of(report_); }

 private:
  ProbeReport* report_;
};

}  // namespace wir::runtime
