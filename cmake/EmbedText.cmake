# SPDX-License-Identifier: Apache-2.0
# cmake -DINPUT=devices.csv -DOUTPUT=x.cpp -DHEADER=embedded_devices.h -DNAME=embedded_devices -P EmbedText.cmake:
# a source with perfpred::<NAME>, the text of the file.
# -DPARTS=page.css;page.js: in the text, <<*.css>> stands for the text of the parts *.css, one after the other.
cmake_minimum_required(VERSION 3.25)
file(READ ${INPUT} text)
foreach(part IN LISTS PARTS)
  cmake_path(GET part EXTENSION extension)
  file(READ ${part} part_text)
  string(APPEND "parts${extension}" "${part_text}")
  list(APPEND extensions ${extension})
endforeach()
list(REMOVE_DUPLICATES extensions)
foreach(extension IN LISTS extensions)
  string(REPLACE "<<*${extension}>>" "${parts${extension}}" text "${text}")
endforeach()
if(text MATCHES "\\)embedded\"")
  message(FATAL_ERROR "${INPUT}: holds the mark that ends its own embedding")
endif()
file(CONFIGURE OUTPUT ${OUTPUT} @ONLY NEWLINE_STYLE UNIX CONTENT [[
#include "@HEADER@"

#pragma GCC diagnostic ignored "-Woverlength-strings"  // longer than every compiler must take; those used here do
const std::string_view perfpred::@NAME@ = R"embedded(@text@)embedded";
]])
