#include <perfpred/torch/step_timer.h>

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <vector>

namespace perfpred {
namespace {

/// Other processes that keep every core busy.
class Company {
 public:
  Company() {
    for (long i = 0; i < ::sysconf(_SC_NPROCESSORS_ONLN); ++i) {
      const pid_t child = ::fork();
      if (child == 0) {
        for (volatile bool busy = true; busy;) {
        }
      }
      if (child > 0) children_.push_back(child);
    }
  }
  Company(const Company&) = delete;
  Company& operator=(const Company&) = delete;
  ~Company() {
    for (const pid_t child : children_) {
      ::kill(child, SIGKILL);
      ::waitpid(child, nullptr, 0);
    }
  }
  [[nodiscard]] bool empty() const { return children_.empty(); }

 private:
  std::vector<pid_t> children_;
};

void compute_for_two_milliseconds() {
  const auto begin = std::chrono::steady_clock::now();
  while (std::chrono::steady_clock::now() - begin < std::chrono::milliseconds(2)) {
  }
}

// The kernel's counters tell of company only after a second: it was there in that second as well.
TEST(StepTimer, MarksTheSamplesOfItsFirstSecondToo) {
  const Company company;
  ASSERT_FALSE(company.empty());
  const StepTiming timing = StepTimer(c10::Device(c10::kCPU)).measure(compute_for_two_milliseconds);
  EXPECT_TRUE(timing.company);
  ASSERT_GE(timing.samples.size(), 10U);
  for (std::size_t i = 0; i < 10; ++i) EXPECT_TRUE(timing.samples[i].disturbed) << i;
  EXPECT_TRUE(timing.label.disturbed);
  EXPECT_FALSE(timing.label.trusted());
}

}  // namespace
}  // namespace perfpred
