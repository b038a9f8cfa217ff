// SPDX-License-Identifier: Apache-2.0
int answer();

int main() { return answer(); }
