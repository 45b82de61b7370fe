-- psql -v query='foreign key -vacuum' -f search.sql        optional: -v limit=5
-- From a program: select * from web.search($1, $2)
\if :{?limit}
\else
\set limit 10
\endif
\if :{?query}
select round(rank::numeric, 3) as rank, title, key, linked_from, snippet
from web.search(:'query', :limit);
\else
\warn 'search.sql: give the words to look for: psql -v query=''foreign key'' -f search.sql'
\endif
