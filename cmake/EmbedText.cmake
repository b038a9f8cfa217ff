# SPDX-License-Identifier: Apache-2.0
# cmake -DINPUT=devices.csv -DOUTPUT=x.cpp -DHEADER=embedded_devices.h -DNAME=embedded_devices -P EmbedText.cmake:
# a source with perfpred::<NAME>, the text of the file.
file(READ ${INPUT} text)
if(text MATCHES "\\)embedded\"")
  message(FATAL_ERROR "${INPUT}: holds the mark that ends its own embedding")
endif()
file(CONFIGURE OUTPUT ${OUTPUT} @ONLY NEWLINE_STYLE UNIX CONTENT [[
#include "@HEADER@"

#pragma GCC diagnostic ignored "-Woverlength-strings"  // longer than every compiler must take; those used here do
const std::string_view perfpred::@NAME@ = R"embedded(@text@)embedded";
]])
