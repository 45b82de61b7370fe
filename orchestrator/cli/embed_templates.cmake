# Writes templates.{h,c}: the files of a new pipeline as text, in the order they are listed when they are written.
#   cmake -DOUT=FOLDER -DSOURCE=FOLDER -P embed.cmake
set(source "/* Made from cli/templates/. */\n#include \"cli/templates.h\"\n\n#include <stddef.h>\n\n")
set(list "const struct template templates[] = {\n")
set(number 0)
# The first of each pair is the name of the file that is written.
foreach(pair @NAME@.yaml=pipeline.yaml handler.c=handler.c handler_test.c=handler_test.c CMakeLists.txt=CMakeLists.txt
             README.md=README.md .gitignore=gitignore)
  string(REPLACE "=" ";" pair ${pair})
  list(GET pair 0 name)
  list(GET pair 1 file)
  file(READ ${SOURCE}/${file} hex HEX)
  string(REGEX REPLACE "(..)" "0x\\1," bytes "${hex}")
  string(APPEND source "static const unsigned char text_${number}[] = {${bytes}0x00};\n")
  string(APPEND list "    {\"${name}\", (const char *)text_${number}},\n")
  math(EXPR number "${number} + 1")
endforeach()
file(WRITE ${OUT}/templates.c "${source}\n${list}    {NULL, NULL},\n};\n")
