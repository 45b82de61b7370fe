-- The tables that the pipeline `web` fills, and the search over them. They are the user's own: pgstage touches them only
-- through the statements in web.yaml. Can be run again at any time: psql -f schema.sql

begin;
set local client_min_messages = warning; -- no notice about what is there already

create schema if not exists web;

-- Decides which words are the same ("keys", "key"). After a change run this file, then
--     pgstage rerun web --all --from index --yes
create or replace function web.language() returns regconfig
language sql immutable parallel safe
return 'pg_catalog.english'::regconfig;

-- What a piece is found by: its words, and its page's title, which weighs more.
create or replace function web.tsv(title text, body text) returns tsvector
language sql immutable parallel safe
return setweight(to_tsvector(web.language(), title), 'A') || to_tsvector(web.language(), body);

create table if not exists web.page (
    key        text collate "C" primary key, -- the task's key: the path below the source's folder
    title      text not null,
    version    bigint not null,              -- the task's version that these rows show
    indexed_at timestamptz not null default now()
);

create table if not exists web.piece (
    page    text collate "C" not null references web.page (key) on delete cascade,
    ordinal bigint not null,                 -- from 1
    text    text not null,
    tsv     tsvector not null,
    primary key (page, ordinal)
);

create index if not exists piece_tsv on web.piece using gin (tsv);

create table if not exists web.link (
    page       text collate "C" not null references web.page (key) on delete cascade,
    ordinal    bigint not null,              -- from 1, in the page's order
    to_page    text collate "C",             -- the key of a file in the same folder, whether it is there or not; or
    url        text,                         -- where else it leads
    anchor     text,                         -- behind the #
    text       text not null,
    navigation boolean not null,             -- it stands in a navigation or footer, not in the text
    primary key (page, ordinal),
    check ((to_page is null) <> (url is null))
);

create index if not exists link_to_page on web.link (to_page);

-- Links to pages of the folder that are not there.
create or replace view web.broken_link as
select l.page, l.ordinal, l.to_page, l.text
from web.link as l
where l.to_page is not null and not exists (select from web.page as p where p.key = l.to_page);

-- The best pages for a query as people type it ("exact words", or, -without), best first, one row a page, with its best piece
-- as the snippet. All words must stand in one piece or in the title. A page counts for more the more other pages speak of it.
create or replace function web.search(query text, max_pages integer default 10)
returns table (rank double precision, key text, title text, linked_from bigint, snippet text)
language sql stable parallel safe
begin atomic
    with best_piece as (
        select distinct on (c.page) c.page, c.text, ts_rank_cd(c.tsv, q.words, 1 | 32) as rank, q.words
        from websearch_to_tsquery(web.language(), search.query) as q (words)
        join web.piece as c on c.tsv @@ q.words
        order by c.page, rank desc, c.ordinal
    ),
    best_page as (
        select p.key, p.title, b.text, b.words, l.pages, b.rank * (1 + ln(1 + l.pages) / 5) as rank
        from best_piece as b
        join web.page as p on p.key = b.page
        cross join lateral (
            select count(distinct l.page) as pages from web.link as l
            where l.to_page = p.key and l.page <> p.key and not l.navigation) as l
        order by rank desc, p.key
        limit search.max_pages
    )
    select b.rank, b.key, b.title, b.pages,
           regexp_replace(
               ts_headline(web.language(), b.text, b.words,
                           'StartSel=«, StopSel=», MaxFragments=2, MinWords=6, MaxWords=22, FragmentDelimiter=" … "'),
               '\s+', ' ', 'g')
    from best_page as b
    order by b.rank desc, b.key;
end;

commit;
