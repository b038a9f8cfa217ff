#pragma once

#define PERFPRED_VERSION "0.1.0"
