import { pages } from './pages.mjs';

export default { paths: () => pages().map(({ slug, content }) => ({ params: { entry: slug }, content })) };
