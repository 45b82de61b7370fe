"""python3 -m unittest test_page"""
import time
import unittest

import page


def read(html, key="a/b.html"):
    return page.read(html.encode() if isinstance(html, str) else html, key)


def links(html, key="a/b.html"):
    return [(link["page"], link["url"], link["anchor"]) for link in read(html, key)["links"]]


class Text(unittest.TestCase):
    def text(self, html):
        return read(html)["text"]

    def test_blocks_stand_apart_and_blanks_collapse(self):
        self.assertEqual(self.text("<p>One\n  <b>t</b>wo <i>three</i></p><p>four<br>five</p>"), "One two three\n\nfour\nfive")
        self.assertEqual(self.text("<table><tr><td>a</td><td>b</td></tr><tr><td>c</td></tr></table>"), "a b\nc")
        self.assertEqual(self.text("<ul><li>a<li>b</ul>end"), "a\nb\n\nend")

    def test_lines_of_pre_are_kept(self):
        self.assertEqual(self.text("a<pre>x = 1\n    y = 2\n</pre>b"), "a\n\nx = 1\n    y = 2\n\nb")

    def test_what_no_reader_sees_is_left_out(self):
        hidden = "<script>if (a < b) {}</script><style>p {}</style><template>t</template><p hidden>h</p><select><option>o</select>"
        self.assertEqual(self.text(hidden + "<p>seen</p>"), "seen")

    def test_navigation_is_left_out_unless_there_is_nothing_else(self):
        self.assertEqual(self.text("<div class='Navheader x'><a href=x>Next</a></div><nav>n</nav><p>body</p>"), "body")
        self.assertEqual(self.text("<nav><p>only <b>this</b></nav>"), "only this")
        self.assertEqual(self.text("<div><nav>never closed</div><p>body</p>"), "body")

    def test_references_and_controls(self):
        self.assertEqual(self.text("a &amp; b &#228; &#0; \x01c"), "a & b ä \ufffd c")
        self.assertEqual(self.text("1 < 2 and <img alt='a picture'> more"), "1 < 2 and a picture more")

    def test_titles(self):
        self.assertEqual(read("<title> A\n page </title><h1>H</h1>")["title"], "A page")
        self.assertEqual(read("<h1>The <i>heading</i></h1><h1>Second</h1>")["title"], "The heading")
        self.assertEqual(read("<p>x")["title"], "b.html")


class Encoding(unittest.TestCase):
    def test_mark_then_declaration_then_guess(self):
        self.assertEqual(page.decode("\ufeffä".encode("utf-16-le")), "ä")
        self.assertEqual(page.decode("\ufeffä".encode("utf-8")), "ä")
        self.assertEqual(page.decode(b"<meta charset='koi8-r'>\xc1")[-1], "а")
        self.assertEqual(page.decode(b"<?xml version='1.0' encoding='iso-8859-1'?>\x93")[-1], "“")
        self.assertEqual(page.decode("ä".encode()), "ä")
        self.assertEqual(page.decode(b"\xe4\x81"), "ä\ufffd")

    def test_a_wrong_declaration_does_no_harm(self):
        for name in (b"utf-16", b"punycode", b"zip", b"hex", b"nonsense", b"utf-8"):
            self.assertEqual(page.decode(b"<meta charset=" + name + b">\xe4")[-1], "ä", name)


class Links(unittest.TestCase):
    def test_pages_of_the_folder_get_their_keys(self):
        self.assertEqual(links("<a href='c.html#x'>c</a>"), [("a/c.html", None, "x")])
        self.assertEqual(links("<a href='../d%20e.html?v=1'>c</a>"), [("d e.html", None, None)])
        self.assertEqual(links("<a href='#here'>c</a>"), [("a/b.html", None, "here")])
        self.assertEqual(links("<a href='/top.html'>c</a>"), [("top.html", None, None)])
        self.assertEqual(links("<a href='100%25.html'>c</a>", "x%0Ay/100%25.html"), [("x%0Ay/100%25.html", None, None)])
        self.assertEqual(links("<a href='%FF.html'>c</a>"), [("a/%FF.html", None, None)])
        self.assertEqual(links("<a href='../../../etc/passwd'>c</a>"), [("etc/passwd", None, None)])

    def test_others_get_their_addresses(self):
        self.assertEqual(links("<a href=' https://x.org/a?b#c '>c</a>"), [(None, "https://x.org/a?b", "c")])
        self.assertEqual(links("<a href='//x.org/a'>c</a>")[0][0], None)
        self.assertEqual(links("<a href='mailto:a@b.c'>c</a>"), [(None, "mailto:a@b.c", None)])
        self.assertEqual(links("<base href='https://x.org/d/'><a href='e'>c</a>"), [(None, "https://x.org/d/e", None)])
        self.assertEqual(links("<a href='http://[::1'>c</a>"), [(None, "http://[::1", None)])

    def test_what_leads_nowhere_is_none(self):
        self.assertEqual(links("<a name=x>c</a><a href=''>c</a><a href='JavaScript:f()'>c</a><a href='data:x'>c</a>"), [])
        self.assertEqual(links("<a href='/%s'>c</a>" % ("x" * 5000)), [])

    def test_text_and_place(self):
        found = read("<nav><a href=n>Next  <b>page</b></a></nav><p>see <a href=m>that<br>one</a>, not <a href=o><img alt=pic></a>")
        self.assertEqual([(link["text"], link["navigation"]) for link in found["links"]],
                         [("Next page", True), ("that one", False), ("pic", False)])


class Pieces(unittest.TestCase):
    def test_cuts(self):
        self.assertEqual(page.pieces("aaaa\n\nbbbb\n\ncccc", 10), ["aaaa\n\nbbbb", "cccc"])
        self.assertEqual(page.pieces("aaaa bbbb cccc", 9), ["aaaa bbbb", "cccc"])
        self.assertEqual(page.pieces("a" * 25, 10), ["a" * 10, "a" * 10, "a" * 5])
        self.assertEqual(page.pieces("", 10), [""])


class Broken(unittest.TestCase):
    def test_it_is_read_all_the_same(self):
        self.assertEqual(read("<p>a<![if x]>b<![CDATA[ c ]]>d<!doctype>e</b>")["text"], "abde")
        for bad in ("<![", "<![<![", "<!", "<!--", "<a href", "<a href='", "</", "<?", "&", "&#", "<title>", "<pre", "\0"):
            self.assertIn("seen", read("<p>seen</p>" + bad)["text"], bad)

    def test_depth_and_number_of_tags_do_not_matter(self):
        for many in ("<div>", "<p></i>", "<a href=x>", "</p>", "<nav>", "<ul><li>"):
            begin = time.process_time()
            read(many * 20_000)
            self.assertLess(time.process_time() - begin, 5, many)


if __name__ == "__main__":
    unittest.main()
