#!/bin/bash
# ocr.sh PATH LANGUAGE DPI MAX_PAGES MAX_MB - the text of a scanned PDF on standard output, a form feed between two pages.
#
# The task stands on standard input. The current directory is the worker's own, and emptied when this is over. Exit status,
# as docs/writing-handlers.md has it: 65 the document is at fault, 77 it may not be read, 75 try again later. The last line on
# standard error is the reason. A program that a signal ended takes this script with it: pgstage is to see the crash.
set -u
export OMP_THREAD_LIMIT=1 # tesseract would take every core for one page; `workers:` says how many

path=$1 language=$2 dpi=$3 max_pages=$4 max_mb=$5

give_up() {
    printf '%s\n' "$2" >&2
    exit "$1"
}

run() {
    "$@"
    local status=$?
    if [ "$status" -gt 128 ]; then
        printf '%s was ended by SIG%s\n' "$1${page:+ (page $page)}" "$(kill -l $((status - 128)))" >&2
        kill -"$((status - 128))" $$
    fi
    return "$status"
}

# What a file source escapes in a name (docs/pipeline-reference.md): %XX is a byte.
if [[ $(cat) =~ [{,]\ *\"escaped\":\ *true ]]; then
    path=${path//\\/\\\\}
    printf -v path %b "${path//%/\\x}"
fi

# Kind, size and time of the file, or why it has none. Asked before it is opened: a pipe would never end.
look() {
    LC_ALL=C stat -L -c '%F, %s bytes, %y' -- "$path" 2>&1
}

if ! state=$(look); then
    case $state in
    *"No such file"* | *"Not a directory"*)
        [ ! -L "$path" ] || give_up 65 "is a link to a file that does not exist"
        give_up 65 "the file is gone: it was moved or removed after it was found" ;;
    *"Too many levels"*) give_up 65 "is a link that leads back to itself" ;;
    *"Permission denied"*) give_up 77 "the file cannot be read: permission denied" ;;
    *) give_up 75 "the file cannot be read now: ${state##*: }" ;;
    esac
fi
case $state in
"regular empty file"*) give_up 65 "the file is empty" ;;
"regular file"*) ;;
directory*) give_up 65 "is a folder, not a document" ;;
fifo*) give_up 65 "is a named pipe, not a document" ;;
*) give_up 65 "is a ${state%%,*}, not a document" ;;
esac
size=${state#*, } size=${size%% *}
[ "$size" -le $((max_mb << 20)) ] ||
    give_up 65 "the file is too large: it has $((size >> 20)) MB, the limit (max_mb) is $max_mb MB"
[ -r "$path" ] || give_up 77 "the file cannot be read: permission denied"
head -c 1024 -- "$path" | grep -aq '%PDF-' || give_up 65 "is no PDF"
tail -c 4096 -- "$path" | grep -aq '%%EOF' || give_up 65 "the PDF is truncated: its end is missing"

if ! run pdfinfo "$path" >about 2>errors; then
    ! grep -q "Incorrect password" errors || give_up 65 "the PDF is encrypted"
    give_up 65 "the PDF is damaged: $(tail -n 1 errors)"
fi
pages=$(sed -n 's/^Pages: *//p' about)
[ "${pages:-0}" -gt 0 ] || give_up 65 "the PDF has no pages"
[ "$pages" -le "$max_pages" ] || give_up 65 "the PDF has $pages pages, the limit (max_pages) is $max_pages"

# pdftoppm draws what it has no memory for as a picture of 1 x 1, and exits with 0.
drawn() {
    [ -s page.png ] && [ "$(od -An -tx1 -j16 -N8 page.png)" != " 00 00 00 01 00 00 00 01" ]
}

for ((page = 1; page <= pages; page++)); do
    rm -f page.png
    if ! run pdftoppm -singlefile -f "$page" -l "$page" -r "$dpi" -gray -png "$path" page || ! drawn; then
        [ "$(look)" = "$state" ] || break
        give_up 65 "page $page of $pages cannot be drawn"
    fi
    [ "$page" -eq 1 ] || printf '\f'
    run tesseract page.png stdout -l "$language" --dpi "$dpi" -c page_separator= ||
        give_up 75 "tesseract cannot read page $page of $pages"
done
[ "$(look)" = "$state" ] || give_up 75 "the file was changed while it was read"
