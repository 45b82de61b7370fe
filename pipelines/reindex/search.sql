-- psql -v query='clover -cattle' -f search.sql        optional: -v limit=5
-- From a program: select * from reindex.search($1, $2)
\if :{?limit}
\else
\set limit 10
\endif
\if :{?query}
select round(rank::numeric, 3) as rank, id, title, snippet
from reindex.search(:'query', :limit);
\else
\warn 'search.sql: give the words to look for: psql -v query=''clover'' -f search.sql'
\endif
