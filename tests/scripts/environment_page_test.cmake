# docs/reference/environment.md is what `hororun settings --markdown` prints.
execute_process(COMMAND ${HORORUN} settings --markdown OUTPUT_VARIABLE printed COMMAND_ERROR_IS_FATAL ANY)
file(READ ${PAGE} page)
if(NOT page STREQUAL printed)
  message(FATAL_ERROR "${PAGE} is out of date; run: ${HORORUN} settings --markdown > ${PAGE}")
endif()
