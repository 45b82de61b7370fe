-- psql -v query='invoice -draft' -f search.sql        optional: -v limit=5
-- From a program: select * from ocr.search($1, $2)
\if :{?limit}
\else
\set limit 10
\endif
\if :{?query}
select round(rank::numeric, 3) as rank, key, page, snippet
from ocr.search(:'query', :limit);
\else
\warn 'search.sql: give the words to look for: psql -v query=''invoice'' -f search.sql'
\endif
