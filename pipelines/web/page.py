"""What a reader of an HTML page sees: its title, its text, and where its links lead. Knows nothing of pgstage.

html.parser tells what tags it finds, and forgives nearly everything; this keeps the few facts that matter of it. Its work can
grow with the square of what is hopelessly broken (a million "<!--"): the stage's limits are for that.
"""
import codecs
import collections
import html.parser
import posixpath
import re
import urllib.parse

LINKS_MAX = 20_000
URL_MAX = 2_000  # characters; nothing a reader would follow is longer

# How elements stand apart from what is around them. Those that are not named are parts of a line.
SPACE, LINE, PARAGRAPH = 1, 2, 3
APART = {
    **dict.fromkeys("td th".split(), SPACE),
    **dict.fromkeys("br caption center dd div dt figcaption legend li option summary tbody tfoot thead tr".split(), LINE),
    **dict.fromkeys(
        "address article aside blockquote body details dl fieldset figure form h1 h2 h3 h4 h5 h6 header hr main ol p pre "
        "section table ul".split(),
        PARAGRAPH,
    ),
}
VOID = frozenset("area base br col embed hr img input link meta source track wbr".split())
HIDDEN = frozenset(
    "applet audio button canvas datalist iframe noframes noscript object script select style svg template textarea "
    "video".split()
)
AROUND = frozenset("nav footer menu".split())
AROUND_ROLES = frozenset("navigation search contentinfo".split())
# What older pages and documentation tools write instead of <nav> and <footer>.
AROUND_CLASSES = frozenset(
    "navheader navfooter navbar navigation breadcrumb breadcrumbs nav related sphinxsidebar headerlink skip-link footer".split()
)
NO_LINKS = ("javascript:", "data:", "blob:", "about:")


class _Text:
    """Collects text as a browser would lay it out: blanks collapsed, blocks apart."""

    def __init__(self):
        self.parts, self.gap = [], 0

    def apart(self, gap):
        self.gap = max(self.gap, gap)

    def add(self, data):
        words = data.split()
        if not words:
            self.gap = max(self.gap, SPACE if data else 0)
            return
        if data[0].isspace():
            self.apart(SPACE)
        self._put(" ".join(words))
        self.gap = SPACE if data[-1].isspace() else 0

    def add_lines(self, data):
        """Of <pre>: line ends and indents count."""
        self._put(data)

    def _put(self, text):
        if self.parts and self.gap:
            self.parts.append(("", " ", "\n", "\n\n")[self.gap])
        self.parts.append(text)
        self.gap = 0

    def text(self):
        lines = "".join(self.parts).replace("\r\n", "\n").replace("\r", "\n")
        return re.sub(r"\n{3,}", "\n\n", re.sub(r"[ \t]+\n", "\n", lines)).strip()


class _Reader(html.parser.HTMLParser):
    def __init__(self):
        super().__init__(convert_charrefs=True)
        self.body, self.everything = _Text(), _Text()  # `everything` has what stands around the text as well
        self.title, self.heading, self.in_heading = None, None, False
        self.links, self.link = [], None
        self.base = None
        self.open, self.count = [], collections.Counter()
        self.hidden = self.around = 0  # how many elements are open when it began; 0: it is not

    def handle_starttag(self, tag, attrs):
        values = dict(reversed(attrs))  # the first of a name counts
        self._stand_apart(tag)
        if tag not in VOID:
            self.open.append(tag)
            self.count[tag] += 1
            if not self.hidden and (tag in HIDDEN or "hidden" in values):
                self.hidden = len(self.open)
            if not self.around and self._is_around(tag, values):
                self.around = len(self.open)
        if tag == "base" and self.base is None:
            self.base = values.get("href")
        if tag == "title" and self.title is None and not self.hidden:
            self.title = _Text()
        if tag == "h1" and self.heading is None and not self.hidden:
            self.heading, self.in_heading = _Text(), True
        if tag in ("a", "area") and values.get("href") is not None and not self.hidden and len(self.links) < LINKS_MAX:
            self.link = _Text() if tag == "a" else None
            text = self.link if tag == "a" else values.get("alt") or ""
            self.links.append((values["href"], text, self.around > 0))
        if tag == "img" and values.get("alt"):
            self.handle_data(" " + values["alt"] + " ")

    def handle_startendtag(self, tag, attrs):
        self.handle_starttag(tag, attrs)  # HTML knows no <p/>: it is <p>. XHTML's <a id="x"/> is closed
        if tag not in VOID and tag not in ("p", "div", "li"):
            self.handle_endtag(tag)

    def handle_endtag(self, tag):
        if self.count[tag] == 0:
            return
        while True:  # what was left open inside ends with it
            ended = self.open.pop()
            self.count[ended] -= 1
            self._stand_apart(ended)
            if ended == "a":
                self.link = None
            if ended == "h1":
                self.in_heading = False
            if ended == tag:
                break
        if self.hidden > len(self.open):
            self.hidden = 0
        if self.around > len(self.open):
            self.around = 0

    def handle_data(self, data):
        if self.hidden:
            return
        if self.count["title"]:
            if self.title is not None:
                self.title.add(data)
            return
        for text in (self.heading if self.in_heading else None, self.link):
            if text is not None:
                text.add(data)
        for text in (self.everything, None if self.around else self.body):
            if text is not None:
                text.add_lines(data) if self.count["pre"] else text.add(data)

    def parse_marked_section(self, i, report=1):
        """<![...>: nothing a browser shows. The parser's own raises AssertionError for many a one."""
        return self.rawdata.find(">", i) + 1 or -1

    def _stand_apart(self, tag):
        gap = APART.get(tag, 0)
        if gap and not self.hidden:
            self.everything.apart(gap)
            if not self.around:
                self.body.apart(gap)
            if self.link is not None:
                self.link.apart(SPACE)

    @staticmethod
    def _is_around(tag, values):
        return (
            tag in AROUND
            or values.get("role") in AROUND_ROLES
            or not AROUND_CLASSES.isdisjoint((values.get("class") or "").lower().split())
        )


def read(data, key):
    """The page in these bytes, whose key is its path below the folder: {"title", "text", "links"}.

    A link is {"page", "url", "anchor", "text", "navigation"}: `page` is the key of a page in the same folder, or None; then
    `url` is where it leads.
    """
    reader = _Reader()
    reader.feed(decode(data))
    reader.close()
    text = reader.body.text() or reader.everything.text()  # a page that is nothing but navigation is about that
    title = _one_line(reader.title) or _one_line(reader.heading) or posixpath.basename(key)
    links = [_resolve(key, reader.base, *link) for link in reader.links]
    return {"title": title, "text": text, "links": [link for link in links if link is not None]}


def _one_line(text):
    return "" if text is None else " ".join((text if isinstance(text, str) else text.text()).split())[:1000]


# ---- bytes to text

_DECLARED = re.compile(rb"""<meta[^>]{0,500}?charset\s*=\s*["']?\s*([-\w]+)|<\?xml[^>]{0,500}?encoding\s*=\s*["']([-\w]+)""", re.I)
_KNOWN = re.compile(r"utf-?8$|(iso[-_]?8859|latin|windows|cp|koi8|euc|mac|big5|gb|shift|s?jis|iso-2022|us-ascii|ascii|tis)", re.I)


def decode(data):
    """By byte order mark, then as the page declares, then UTF-8, then Windows-1252, which takes anything."""
    for mark, name in ((codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be")):
        if data.startswith(mark):
            return _clean(data[len(mark) :].decode(name, "replace"))
    declared = _DECLARED.search(data[:4096])
    name = next(filter(None, declared.groups()), b"").decode("ascii", "replace") if declared else ""
    for encoding in (_browser_name(name), "utf-8", "cp1252"):
        if encoding is None:
            continue
        try:
            return _clean(data.decode(encoding))
        except (UnicodeDecodeError, LookupError):
            pass
    return _clean(data.decode("cp1252", "replace"))


def _browser_name(name):
    """Of an encoding for text, as browsers understand its name; None: not known."""
    if not _KNOWN.match(name):
        return None
    return "cp1252" if re.match(r"(iso[-_]?8859[-_]1|latin-?1|(us-)?ascii)$", name, re.I) else name


def _clean(text):
    """Without what is no text: NUL, which no database stores, and other controls."""
    return re.sub("[\x00-\x08\x0b\x0e-\x1f\x7f]", "", text)


# ---- links

_HERE = "folder:///"  # no page links to that by itself
urllib.parse.uses_relative.append("folder")
urllib.parse.uses_netloc.append("folder")


def _resolve(key, base, href, text, navigation):
    href = "".join(href.split("\n")).replace("\r", "").replace("\t", "").strip()
    if not href or len(href) > URL_MAX or href.lower().startswith(NO_LINKS):
        return None
    link = {"page": None, "url": None, "anchor": None, "text": _one_line(text), "navigation": navigation}
    try:
        here = _HERE + urllib.parse.quote(_unescape_key(key))
        url, anchor = urllib.parse.urldefrag(urllib.parse.urljoin(urllib.parse.urljoin(here, base or ""), href))
    except ValueError:  # "http://[": no address, and yet what the page says
        return {**link, "url": href}
    link["anchor"] = anchor or None
    if url.startswith(_HERE):
        path = urllib.parse.urlsplit(url).path.lstrip("/")
        return {**link, "page": _escape_key(urllib.parse.unquote_to_bytes(path))}
    return {**link, "url": url}


def _unescape_key(key):
    return urllib.parse.unquote_to_bytes(key)  # the source writes % as %25


def _escape_key(path):
    """As a file source writes names: controls, % and what is not UTF-8 as %XX."""
    text = path.decode("utf-8", "surrogateescape")
    return re.sub("[\x00-\x1f\x7f%\udc80-\udcff]", lambda m: "%%%02X" % m.group().encode("utf-8", "surrogateescape")[0], text)


# ---- pieces

def pieces(text, size):
    """Of about `size` characters, at ends of paragraphs where there are some, else of lines, else between words."""
    done, current = [], ""
    for part, glue in _parts(text, size):
        if current and len(current) + len(glue) + len(part) > size:
            done.append(current)
            current = part
        else:
            current = current + glue + part if current else part
    return done + [current] if current or not done else done


def _parts(text, size):
    for paragraph in text.split("\n\n"):
        if len(paragraph) <= size:
            yield paragraph, "\n\n"
            continue
        for line in paragraph.split("\n"):
            if len(line) <= size:
                yield line, "\n"
                continue
            for word in line.split(" "):
                for at in range(0, max(len(word), 1), size):
                    yield word[at : at + size], " "
