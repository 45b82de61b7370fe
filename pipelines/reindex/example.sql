-- A table of documents to try the pipeline `reindex` on, for those who have none.
create table public.documents (
    id    bigint generated always as identity primary key,
    title text,
    body  text
);
insert into public.documents (title, body) values
    ('Keeping bees', 'Bees like clover. A hive wants a dry place, water nearby, and a keeper with patience.'),
    ('Clover',       'A plant of meadows. It feeds cattle, and it puts nitrogen into the soil.'),
    ('Water',        'Without it nothing of this works.');
