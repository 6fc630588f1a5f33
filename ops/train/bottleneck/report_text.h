#pragma once

#include <string>

#include "ops/train/bottleneck/diagnosis.h"
#include "ops/train/bottleneck/job_costs.h"

namespace horo::ops {

/// The report for a terminal: at most 25 lines of about 100 characters. Of jobs with more than 8
/// ranks it shows the ranks with the longest own time. Pure.
std::string report_text(const JobCosts& job, const Diagnosis& diagnosis);

}  // namespace horo::ops
