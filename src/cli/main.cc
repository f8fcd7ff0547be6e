#include "cli/commands.h"

int main(int argc, char** argv) { return heddle::RunMain(argc, argv, HEDDLE_VERSION); }
